#include "media/orientation.h"

#include <algorithm>
#include <cstring>

namespace slip::media {
namespace {

constexpr int kUpright = 1;

/// Numbers of a TIFF block in its own byte order. Reading past the end gives 0, which ends every search.
class TiffReader {
 public:
  explicit TiffReader(Bytes bytes) : bytes_(bytes) {
    little_ = bytes.size() >= 2 && at(0) == 'I' && at(1) == 'I';
    big_ = bytes.size() >= 2 && at(0) == 'M' && at(1) == 'M';
  }
  bool valid() const { return (little_ || big_) && u16(2) == 42; }

  uint32_t u16(size_t offset) const {
    return little_ ? at(offset) | at(offset + 1) << 8 : at(offset) << 8 | at(offset + 1);
  }
  uint32_t u32(size_t offset) const {
    return little_ ? u16(offset) | u16(offset + 2) << 16 : u16(offset) << 16 | u16(offset + 2);
  }

 private:
  uint32_t at(size_t offset) const {
    return offset < bytes_.size() ? static_cast<uint32_t>(bytes_[offset]) : 0;
  }
  Bytes bytes_;
  bool little_ = false;
  bool big_ = false;
};

/// Where the pixel shown at (x, y) is stored: (origin_x + x * right_x + y * down_x, and the same for y).
struct Turn {
  int origin_x, origin_y, right_x, right_y, down_x, down_y;
  bool swaps_sides() const { return right_x == 0; }
};

Turn turn_of(int orientation, int width, int height) {
  const int right = width - 1;
  const int bottom = height - 1;
  switch (orientation) {
    case 2: return {right, 0, -1, 0, 0, 1};
    case 3: return {right, bottom, -1, 0, 0, -1};
    case 4: return {0, bottom, 1, 0, 0, -1};
    case 5: return {0, 0, 0, 1, 1, 0};
    case 6: return {0, bottom, 0, -1, 1, 0};
    case 7: return {right, bottom, 0, -1, -1, 0};
    case 8: return {right, 0, 0, 1, -1, 0};
    default: return {0, 0, 1, 0, 0, 1};
  }
}

}  // namespace

int orientation_of(Bytes exif) {
  constexpr uint32_t kOrientationTag = 0x0112;
  constexpr uint32_t kShort = 3;
  if (exif.size() >= 6 && std::memcmp(exif.data(), "Exif\0\0", 6) == 0) exif = exif.subspan(6);
  const TiffReader tiff(exif);
  if (!tiff.valid()) return kUpright;
  const size_t directory = tiff.u32(4);
  const uint32_t entries = tiff.u16(directory);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + size_t{12} * i;
    if (entry >= exif.size()) break;
    if (tiff.u16(entry) != kOrientationTag || tiff.u16(entry + 2) != kShort) continue;
    const uint32_t value = tiff.u16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

Pixels upright(Pixels pixels, int orientation) {
  if (orientation <= kUpright || orientation > 8) return pixels;
  const Turn turn = turn_of(orientation, pixels.width, pixels.height);
  Pixels out = turn.swaps_sides() ? Pixels(pixels.height, pixels.width) : Pixels(pixels.width, pixels.height);
  const auto stride = static_cast<std::ptrdiff_t>(pixels.stride());
  const std::ptrdiff_t right = turn.right_x * 3 + turn.right_y * stride;
  const std::ptrdiff_t down = turn.down_x * 3 + turn.down_y * stride;
  const uint8_t* origin = pixels.row(turn.origin_y) + turn.origin_x * 3;
  // By squares, so that a quarter turn reads and writes lines that stay in the cache.
  constexpr int kSquare = 64;
  for (int top = 0; top < out.height; top += kSquare) {
    for (int left = 0; left < out.width; left += kSquare) {
      const int end_x = std::min(left + kSquare, out.width);
      for (int y = top; y < std::min(top + kSquare, out.height); ++y) {
        uint8_t* line = out.row(y);
        for (int x = left; x < end_x; ++x) {
          const uint8_t* from = origin + down * y + right * x;
          for (int c = 0; c < 3; ++c) line[3 * x + c] = from[c];
        }
      }
    }
  }
  return out;
}

}  // namespace slip::media
