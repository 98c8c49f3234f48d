#include "tensor/quantise.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/float16.h"

namespace slip::tensor {

namespace {

// Comparisons are written so that NaN lands on 0: converting it to an integer would be undefined.
uint8_t code_of(float value, float levels) {
  const float nearest = std::nearbyint(value);
  if (!(nearest > 0)) return 0;
  return static_cast<uint8_t>(nearest > levels ? levels : nearest);
}

}  // namespace

void affine_quantise(std::span<const float> row, int bits, int group, AffineRow& out) {
  SLIP_CHECK(bits >= 1 && bits <= 8 && group > 0 && row.size() % static_cast<size_t>(group) == 0);
  const auto width = static_cast<size_t>(group);
  const auto levels = static_cast<float>((1 << bits) - 1);
  out.codes.resize(row.size());
  out.scales.resize(row.size() / width);
  out.biases.resize(out.scales.size());
  for (size_t g = 0; g < out.scales.size(); ++g) {
    const std::span<const float> values = row.subspan(g * width, width);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    // A constant group has no spread: the floor keeps the division defined.
    const float scale = round_to_bf16(std::max((*high - *low) / levels, 1e-7f));
    const float bias = round_to_bf16(*low);
    for (size_t i = 0; i < width; ++i) out.codes[g * width + i] = code_of((values[i] - bias) / scale, levels);
    out.scales[g] = scale;
    out.biases[g] = bias;
  }
}

}  // namespace slip::tensor
