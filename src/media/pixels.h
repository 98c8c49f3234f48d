// Pixels: an image in memory, 8-bit RGB, rows from the top without padding. It owns its bytes, which are not
// cleared: whoever makes one writes all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace slip::media {

struct Pixels {
  Pixels() = default;
  Pixels(int w, int h) : width(w), height(h), rgb(std::make_unique_for_overwrite<uint8_t[]>(bytes())) {}

  size_t stride() const { return 3 * static_cast<size_t>(width); }
  size_t bytes() const { return stride() * static_cast<size_t>(height); }
  uint8_t* row(int y) { return rgb.get() + stride() * static_cast<size_t>(y); }
  const uint8_t* row(int y) const { return rgb.get() + stride() * static_cast<size_t>(y); }

  int width = 0;
  int height = 0;
  std::unique_ptr<uint8_t[]> rgb;
};

}  // namespace slip::media
