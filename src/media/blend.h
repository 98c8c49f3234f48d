// Arithmetic on 8-bit samples that decoders share. Division by 255 is rounded to nearest without dividing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slip::media {

/// a * b / 255, rounded.
constexpr uint8_t times_255(uint32_t a, uint32_t b) {
  const uint32_t t = a * b + 128;
  return static_cast<uint8_t>((t + (t >> 8)) >> 8);
}

/// A sample over white.
constexpr uint8_t over_white(uint32_t sample, uint32_t alpha) {
  const uint32_t t = sample * alpha + 255 * (255 - alpha) + 128;
  return static_cast<uint8_t>((t + (t >> 8)) >> 8);
}

/// Pixels of four samples (red, green, blue, alpha) to three, on white. Returns true where any was not
/// opaque.
bool rgba_over_white(const uint8_t* rgba, uint8_t* rgb, size_t pixels);

void grey_to_rgb(const uint8_t* grey, uint8_t* rgb, size_t pixels);

}  // namespace slip::media
