// ImagePatches: an image as a vision tower takes it. Rows of 8-bit samples, one row a patch, from the top
// left corner line by line; inside a patch the pixels line by line, red, green and blue side by side.
//
// The towers of E2B, E4B, 26B-A4B and 31B take patches of 16 x 16 (768 samples) and join 3 x 3 of them to one
// soft token. The 12B takes blocks of 48 x 48 (6,912 samples), each a soft token.
//
// Samples stay bytes (a float copy of 1,120 tokens is 31 MB, and they are needed once); value() gives the
// number that a tower computes with. There is no padding.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "media/fit.h"
#include "media/pixels.h"

namespace slip::media {

/// The side of what a tower takes as a row.
enum class PatchSide : int { kPatch = kPatchSide, kBlock = kBlockSide };

struct ImagePatches {
  struct Position {
    int x = 0;  // column of the grid
    int y = 0;  // row of the grid
    bool operator==(const Position&) const = default;
  };

  int side = kPatchSide;  // of a patch, in pixels
  int columns = 0;        // of the grid of patches
  int rows = 0;
  int soft_tokens = 0;
  std::vector<uint8_t> samples;  // [rows * columns][side * side * 3]

  // What was read, for reports.
  int image_width = 0;  // as a person sees it, before resizing
  int image_height = 0;
  int budget = 0;            // what kAutoBudget chose, where it was asked for
  bool shrunk = false;       // detail was lost in resizing
  bool animated = false;     // only the first frame was read
  bool transparent = false;  // white was put behind it

  int count() const { return rows * columns; }
  int samples_per_patch() const { return side * side * 3; }
  int width() const { return columns * side; }
  int height() const { return rows * side; }
  Position position(int patch) const { return {patch % columns, patch / columns}; }
  const uint8_t* patch(int index) const {
    return samples.data() + static_cast<size_t>(index) * static_cast<size_t>(samples_per_patch());
  }
};

/// The float nearest 1/255. The reference multiplies by it; dividing by 255 differs in the last bit of half
/// of all values.
inline constexpr float kSampleScale = std::bit_cast<float>(0x3B808081u);

constexpr float value(uint8_t sample) {
  return static_cast<float>(sample) * kSampleScale;
}

/// The numbers a tower computes with, [count][samples_per_patch].
std::vector<float> values(const ImagePatches& patches);

/// Column and row of every patch, [count][2].
std::vector<int32_t> positions(const ImagePatches& patches);

/// Cuts resized pixels, both of whose sides are multiples of 48. `rgb` holds width * height * 3 bytes.
ImagePatches cut_patches(const uint8_t* rgb, int width, int height, PatchSide side);

}  // namespace slip::media
