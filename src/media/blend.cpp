#include "media/blend.h"

namespace slip::media {

bool rgba_over_white(const uint8_t* rgba, uint8_t* rgb, size_t pixels) {
  uint8_t all = 255;
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t alpha = rgba[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) rgb[3 * i + c] = over_white(rgba[4 * i + c], alpha);
    all &= alpha;
  }
  return all != 255;
}

void grey_to_rgb(const uint8_t* grey, uint8_t* rgb, size_t pixels) {
  for (size_t i = 0; i < pixels; ++i) {
    for (size_t c = 0; c < 3; ++c) rgb[3 * i + c] = grey[i];
  }
}

}  // namespace slip::media
