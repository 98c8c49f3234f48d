#include "tensor/quantise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/float16.h"
#include "base/noise.h"

namespace slip::tensor {
namespace {

std::vector<float> noise_row(size_t cols, uint64_t key) {
  std::vector<float> row(cols);
  for (size_t i = 0; i < cols; ++i) {
    row[i] = round_to_bf16(static_cast<float>(keyed_uniform(key, i) - 0.4) * 0.3f);
  }
  return row;
}

TEST(Quantise, values_come_back_within_half_a_step_plus_the_rounding_of_scale_and_bias) {
  for (const int bits : {3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      const std::vector<float> row = noise_row(384, static_cast<uint64_t>(bits * 1000 + group));
      AffineRow out;
      affine_quantise(row, bits, group, out);
      ASSERT_EQ(out.codes.size(), row.size());
      ASSERT_EQ(out.scales.size(), row.size() / static_cast<size_t>(group));
      for (size_t i = 0; i < row.size(); ++i) {
        const size_t g = i / static_cast<size_t>(group);
        const float range = out.scales[g] * static_cast<float>((1 << bits) - 1);
        const float slack = (range + std::abs(out.biases[g])) / 256;  // bf16 keeps 8 bits of each
        const float back = static_cast<float>(out.codes[i]) * out.scales[g] + out.biases[g];
        ASSERT_LE(std::abs(back - row[i]), out.scales[g] / 2 + slack) << bits << " bits, group " << group;
        ASSERT_LT(out.codes[i], 1 << bits);
      }
    }
  }
}

TEST(Quantise, a_row_that_lies_on_the_grid_comes_back_exactly) {
  std::vector<float> row(32);
  for (size_t i = 0; i < row.size(); ++i) row[i] = 0.25f * static_cast<float>(i % 16) - 1.5f;
  AffineRow out;
  affine_quantise(row, 4, 32, out);
  EXPECT_EQ(out.scales[0], 0.25f);
  EXPECT_EQ(out.biases[0], -1.5f);
  for (size_t i = 0; i < row.size(); ++i) EXPECT_EQ(out.codes[i], i % 16);
}

TEST(Quantise, scale_and_bias_are_bf16_values_and_codes_are_taken_after_their_rounding) {
  // In bf16 the minimum 0.1 becomes 0.10009765625 and the step 0.05 becomes 0.050048828125.
  std::vector<float> row(32, 0.1f);
  row[1] = 0.1f + 0.05f * 15;
  row[2] = 0.1f + 0.05f * 9.505f;  // 9.505 steps of 0.05, but 9.494 rounded ones above the rounded minimum
  AffineRow out;
  affine_quantise(row, 4, 32, out);
  EXPECT_EQ(out.scales[0], round_to_bf16(0.05f));
  EXPECT_EQ(out.biases[0], round_to_bf16(0.1f));
  EXPECT_EQ(out.codes[0], 0);
  EXPECT_EQ(out.codes[1], 15);
  EXPECT_EQ(out.codes[2], 9);
}

TEST(Quantise, halves_round_to_even) {
  std::vector<float> row(32, 0.0f);
  row[1] = 15.0f;
  row[2] = 2.5f;
  row[3] = 3.5f;
  AffineRow out;
  affine_quantise(row, 4, 32, out);
  EXPECT_EQ(out.codes[2], 2);
  EXPECT_EQ(out.codes[3], 4);
}

TEST(Quantise, a_constant_group_keeps_its_value) {
  const std::vector<float> row(64, 0.75f);
  AffineRow out;
  affine_quantise(row, 8, 64, out);
  EXPECT_EQ(static_cast<float>(out.codes[5]) * out.scales[0] + out.biases[0], 0.75f);
}

TEST(Quantise, infinities_and_nan_stay_within_the_code_range) {
  std::vector<float> row = noise_row(64, 7);
  row[3] = std::numeric_limits<float>::infinity();
  row[40] = std::numeric_limits<float>::quiet_NaN();
  AffineRow out;
  affine_quantise(row, 4, 32, out);
  for (const uint8_t code : out.codes) EXPECT_LT(code, 16);
}

}  // namespace
}  // namespace slip::tensor
