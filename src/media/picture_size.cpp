#include "media/picture_size.h"

#include <cstring>

namespace slip::media {
namespace {

/// Numbers of a header. Reading past the end gives 0.
class Header {
 public:
  explicit Header(Bytes bytes) : bytes_(bytes) {}
  size_t size() const { return bytes_.size(); }
  int64_t u8(size_t at) const { return at < bytes_.size() ? static_cast<int64_t>(bytes_[at]) : 0; }
  int64_t big16(size_t at) const { return u8(at) << 8 | u8(at + 1); }
  int64_t big32(size_t at) const { return big16(at) << 16 | big16(at + 2); }
  int64_t little16(size_t at) const { return u8(at) | u8(at + 1) << 8; }
  int64_t little24(size_t at) const { return little16(at) | u8(at + 2) << 16; }
  int64_t little32(size_t at) const { return little16(at) | little16(at + 2) << 16; }
  bool has(size_t at, const char (&word)[5]) const {
    return at + 4 <= bytes_.size() && std::memcmp(bytes_.data() + at, word, 4) == 0;
  }

 private:
  Bytes bytes_;
};

/// Markers that begin a frame; the three exceptions in their range are tables.
bool is_frame(int64_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

bool stands_alone(int64_t marker) {
  return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7);
}

/// Walks the markers up to the frame. Every turn moves on by a byte at least.
PictureSize jpeg_size(const Header& header) {
  constexpr int64_t kScan = 0xDA;
  constexpr int64_t kEnd = 0xD9;
  for (size_t at = 2; at + 9 <= header.size();) {
    const int64_t marker = header.u8(at + 1);
    if (header.u8(at) != 0xFF || marker == kScan || marker == kEnd) break;
    if (is_frame(marker)) return {header.big16(at + 7), header.big16(at + 5)};
    if (marker == 0xFF) {
      ++at;  // fill bytes may precede a marker
    } else if (stands_alone(marker)) {
      at += 2;
    } else {
      at += 2 + static_cast<size_t>(header.big16(at + 2));
    }
  }
  return {};
}

PictureSize png_size(const Header& header) {
  if (header.size() < 24 || !header.has(12, "IHDR")) return {};
  return {header.big32(16), header.big32(20)};
}

PictureSize webp_size(const Header& header) {
  constexpr int64_t kSide = 0x3FFF;  // 14 bits
  if (header.size() < 30) return {};
  if (header.has(12, "VP8X")) return {header.little24(24) + 1, header.little24(27) + 1};
  if (header.has(12, "VP8 ")) return {header.little16(26) & kSide, header.little16(28) & kSide};
  if (!header.has(12, "VP8L")) return {};
  const int64_t bits = header.little32(21);
  return {(bits & kSide) + 1, (bits >> 14 & kSide) + 1};
}

PictureSize gif_size(const Header& header) {
  if (header.size() < 10) return {};
  return {header.little16(6), header.little16(8)};
}

PictureSize stated_size(Kind kind, const Header& header) {
  switch (kind) {
    case Kind::kJpeg: return jpeg_size(header);
    case Kind::kPng: return png_size(header);
    case Kind::kWebp: return webp_size(header);
    case Kind::kGif: return gif_size(header);
    default: return {};
  }
}

}  // namespace

std::optional<PictureSize> picture_size(Bytes bytes) {
  const PictureSize size = stated_size(sniff(bytes), Header(bytes));
  if (size.width <= 0 || size.height <= 0) return std::nullopt;
  return size;
}

}  // namespace slip::media
