// Limits: how much one media file may ask of us. They are checked from headers, before memory is taken, so
// that a small file which unpacks to gigabytes costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slip::media {

struct Limits {
  uint64_t bytes = uint64_t{20} << 20;  // of the file; what OpenAI allows
  uint64_t pixels = 100'000'000;        // of the image as stored
  int32_t side = 32768;                 // the longest a side may be
  int32_t scans = 64;                   // of a progressive JPEG: each one walks the whole image again

  /// Private memory a worker may take. The worst case is a progressive JPEG without subsampling: 16-bit
  /// coefficients and the pixels, 9 bytes a pixel, then 4 more while it is turned and resized.
  uint64_t worker_memory() const { return 13 * pixels + 2 * bytes + (uint64_t{96} << 20); }
};

/// How many items one prompt may hold, unless the caller says otherwise.
inline constexpr int kMostImages = 32;

}  // namespace slip::media
