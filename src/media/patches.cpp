#include "media/patches.h"

#include <algorithm>

#include "base/check.h"

namespace slip::media {

std::vector<float> values(const ImagePatches& patches) {
  std::vector<float> out(patches.samples.size());
  std::transform(patches.samples.begin(), patches.samples.end(), out.begin(), value);
  return out;
}

std::vector<int32_t> positions(const ImagePatches& patches) {
  std::vector<int32_t> out;
  out.reserve(2 * static_cast<size_t>(patches.count()));
  for (int i = 0; i < patches.count(); ++i) {
    const ImagePatches::Position at = patches.position(i);
    out.insert(out.end(), {at.x, at.y});
  }
  return out;
}

ImagePatches cut_patches(const uint8_t* rgb, int width, int height, PatchSide side) {
  SLIP_CHECK(width > 0 && height > 0 && width % kBlockSide == 0 && height % kBlockSide == 0);
  ImagePatches out;
  out.side = static_cast<int>(side);
  out.columns = width / out.side;
  out.rows = height / out.side;
  out.soft_tokens = (width / kBlockSide) * (height / kBlockSide);
  const size_t line = 3 * static_cast<size_t>(out.side);
  const size_t stride = 3 * static_cast<size_t>(width);
  out.samples.resize(stride * static_cast<size_t>(height));
  uint8_t* to = out.samples.data();
  for (int patch = 0; patch < out.count(); ++patch) {
    const ImagePatches::Position at = out.position(patch);
    const uint8_t* from =
        rgb + stride * static_cast<size_t>(at.y * out.side) + line * static_cast<size_t>(at.x);
    for (int y = 0; y < out.side; ++y, from += stride) to = std::copy_n(from, line, to);
  }
  return out;
}

}  // namespace slip::media
