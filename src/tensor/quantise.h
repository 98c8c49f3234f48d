// Affine quantisation by MLX's rule, for checkpoints made here and for weights that are quantised while
// loading: per group of columns the scale is (max - min) / (2^bits - 1) and the bias is min, both rounded to
// bf16 before the codes are taken, so that codes fit the values a reader will see. One pass over the row;
// out's memory is reused between rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slip::tensor {

struct AffineRow {
  std::vector<uint8_t> codes;  // [cols]
  std::vector<float> scales;   // [cols / group], bf16 values
  std::vector<float> biases;   // [cols / group], bf16 values
};

/// `group` divides the row's length, `bits` is 1 to 8. Rounds half to even. A row with infinities or NaN
/// gives codes that mean nothing, but stays within bounds.
void affine_quantise(std::span<const float> row, int bits, int group, AffineRow& out);

}  // namespace slip::tensor
