#include "backend/cpu/dot_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/float16.h"
#include "support/memory_tensor.h"
#include "support/simd_targets.h"

namespace slip::backend::cpu {
namespace {

constexpr int kStride = 80;  // of the outputs

/// Rows and panels of random values, in both element types.
template <typename Element>
struct Dots {
  static constexpr int kColumns = sizeof(Element) == 2 ? 2 : 1;  // of a step

  Dots(int row_count, int panel_count, int last, int step_count)
      : rows(row_count), panels(panel_count), last_lanes(last), steps(step_count) {
    const int cols = steps * kColumns;
    for (int i = 0; i < rows * (cols + 2); ++i)
      x.push_back(element(test::noise(1, static_cast<uint64_t>(i))));
    for (int i = 0; i < panels * 32 * cols; ++i)
      w.push_back(element(test::noise(2, static_cast<uint64_t>(i))));
  }
  static Element element(float value) {
    if constexpr (sizeof(Element) == 2) return to_bf16(value).bits;
    return value;
  }
  static float value(Element element) {
    if constexpr (sizeof(Element) == 2) return to_float(Bf16{element});
    return static_cast<float>(element);
  }
  int lanes(int panel) const { return panel + 1 == panels ? last_lanes : 32; }
  int outputs() const { return (panels - 1) * 32 + last_lanes; }

  std::vector<float> run(int first, int count, bool add) const {
    std::vector<float> out(static_cast<size_t>(count * kStride), 0.5f);
    const int x_stride = steps * kColumns + 2;
    dot_rows(x.data() + first * x_stride, x_stride, count,
             {.data = w.data(),
              .stride = static_cast<int64_t>(sizeof(Element)) * 32 * steps * kColumns,
              .panels = panels,
              .last_lanes = last_lanes,
              .steps = steps},
             out.data(), kStride, add);
    return out;
  }
  double expected(int row, int output) const {
    const int panel = output / 32, lane = output % 32, cols = steps * kColumns;
    double sum = 0;
    for (int c = 0; c < cols; ++c) {
      const int at = panel * 32 * cols + (c / kColumns * lanes(panel) + lane) * kColumns + c % kColumns;
      sum += static_cast<double>(value(x[static_cast<size_t>(row * (cols + 2) + c)])) *
             value(w[static_cast<size_t>(at)]);
    }
    return sum;
  }

  int rows, panels, last_lanes, steps;
  std::vector<Element> x, w;
};

template <typename Element>
void check(int rows, int panels, int last_lanes, int steps) {
  const Dots<Element> dots(rows, panels, last_lanes, steps);
  for (const bool add : {false, true}) {
    const std::vector<float> all = dots.run(0, rows, add);
    for (int row = 0; row < rows; ++row) {
      for (int i = 0; i < dots.outputs(); ++i) {
        EXPECT_NEAR(all[static_cast<size_t>(row * kStride + i)], dots.expected(row, i) + (add ? 0.5 : 0),
                    1e-4)
            << row << ", " << i;
      }
      // What lies behind the outputs is left alone.
      EXPECT_EQ(all[static_cast<size_t>(row * kStride + dots.outputs())], 0.5f);
      // A row alone has the same bits.
      const std::vector<float> alone = dots.run(row, 1, add);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + row * kStride));
    }
  }
}

template <typename Element>
void check_shapes() {
  for (int rows = 1; rows <= 9; ++rows) check<Element>(rows, 2, 32, 13);
  for (const int last : {16, 32}) check<Element>(17, 1, last, 36), check<Element>(5, 2, last, 1);
}

TEST(DotRows, of_floats_are_sums_of_products_on_every_instruction_set_and_for_any_number_of_rows) {
  test::for_each_simd_target([] { check_shapes<float>(); });
}

TEST(DotRows, of_bf16_are_sums_of_products_for_any_number_of_rows) {
  if (!has_bf16_dot()) GTEST_SKIP() << "this processor does not multiply bf16";
  check_shapes<uint16_t>();
}

TEST(DotRows, peaks_are_measured) {
  EXPECT_GT(measure_float_peak(), 0);
  EXPECT_GT(measure_dot_peak(), 0);
}

}  // namespace
}  // namespace slip::backend::cpu
