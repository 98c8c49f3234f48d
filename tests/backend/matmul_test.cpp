#include "backend/cpu/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cpu/rows.h"
#include "support/compare.h"
#include "support/memory_tensor.h"
#include "support/simd_targets.h"

namespace slip::backend::cpu {
namespace {

using tensor::DType;
using test::OwnedMatrix;

struct Format {
  const char* name;
  OwnedMatrix (*make)(int64_t rows, int64_t cols);
  int64_t col_step;  // columns must divide by this
};

template <DType kType>
OwnedMatrix floats(int64_t rows, int64_t cols) {
  return test::random_float_matrix(kType, rows, cols, 7);
}
template <int kBits, int kGroup, DType kScale = DType::kBf16>
OwnedMatrix affine(int64_t rows, int64_t cols) {
  return test::random_affine_matrix(kBits, kGroup, kScale, rows, cols, 11);
}

const Format kFormats[] = {
    {"bf16", floats<DType::kBf16>, 1},
    {"f16", floats<DType::kF16>, 1},
    {"f32", floats<DType::kF32>, 1},
    {"affine3 group 32", affine<3, 32>, 32},
    {"affine4 group 32", affine<4, 32>, 32},
    {"affine4 group 64", affine<4, 64>, 64},
    {"affine4 group 128", affine<4, 128>, 128},
    {"affine4 group 64 f16 scales", affine<4, 64, DType::kF16>, 64},
    {"affine5 group 64", affine<5, 64>, 64},
    {"affine6 group 32", affine<6, 32>, 32},
    {"affine8 group 32", affine<8, 32>, 32},
    {"affine8 group 64", affine<8, 64>, 64},
    {"affine8 group 128 f32 scales", affine<8, 128, DType::kF32>, 128},
};

/// A packed matrix and rows of activations, and every product of them in double precision.
class Product {
 public:
  Product(const Format& format, int64_t rows, int64_t cols, int64_t width, ActivationMode mode)
      : source_(format.make(rows, cols)), pool_(2), width_(width) {
    packed_ = plan(source_.matrix, rows);
    Carver counter;
    place(packed_, counter);
    memory_ = Buffer(counter.used() + 4096);
    Carver placer(memory_.data());
    place(packed_, placer);
    pack(source_.matrix, 0, packed_, pool_);

    Carver row_counter;
    rows_ = Rows(row_counter, width, cols, mode);
    row_memory_ = Buffer(row_counter.used());
    Carver row_placer(row_memory_.data());
    rows_ = Rows(row_placer, width, cols, mode);
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t c = 0; c < cols; ++c)
        rows_.row(i)[c] = test::noise(23, static_cast<uint64_t>(i * cols + c));
      rows_.finish(i);
    }
  }

  const PackedMatrix& packed() const { return packed_; }
  int64_t out_stride() const { return packed_.panels * kPanelRows; }

  /// Rows [first, first + count) in one call.
  std::vector<float> run(int64_t first, int64_t count) const {
    std::vector<float> out(static_cast<size_t>(count * out_stride()));
    std::vector<Column> columns;
    for (int64_t i = 0; i < count; ++i)
      columns.push_back(rows_.column(first + i, &out[static_cast<size_t>(i * out_stride())]));
    matmul(packed_, columns, 0, packed_.panels);
    return out;
  }

  std::vector<double> expected() const {
    std::vector<double> out(static_cast<size_t>(width_ * out_stride()), 0.0);
    std::vector<float> row(static_cast<size_t>(packed_.cols));
    tensor::RowReader reader(source_.matrix);
    for (int64_t r = 0; r < packed_.rows; ++r) {
      reader.floats(r, row.data());
      for (int64_t i = 0; i < width_; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < packed_.cols; ++c)
          sum += static_cast<double>(row[static_cast<size_t>(c)]) * rows_.row(i)[c];
        out[static_cast<size_t>(i * out_stride() + r)] = sum;
      }
    }
    return out;
  }

 private:
  OwnedMatrix source_;
  ThreadPool pool_;
  int64_t width_;
  PackedMatrix packed_;
  Buffer memory_, row_memory_;
  Rows rows_;
};

using test::relative_error;

class Matmul : public testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(Formats, Matmul, testing::ValuesIn(kFormats), [](const auto& test) {
  std::string name = test.param.name;
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
});

// What rounding costs a product, in relative L2. In floats a sum of n terms is off by u sqrt(n), u = 2^-24.
// Codes have a step of the block's largest value over `codes`, so an error of step / sqrt(12); of values that
// are spread evenly the largest is sqrt(3) times the root mean square. Products of few rows scatter around
// that, hence the factor of 4.
double allowed_of(int64_t cols, double codes) {
  const double floats = std::ldexp(std::sqrt(static_cast<double>(cols)), -24);
  const double rounding = codes == 0 ? 0 : std::sqrt(3.0) / (codes * std::sqrt(12.0));
  return 4 * (floats + rounding);
}

TEST_P(Matmul, agrees_with_a_plain_sum_in_double_precision_for_odd_sizes) {
  test::for_each_simd_target([&] {
    const Format& format = GetParam();
    for (const int64_t rows : {1, 16, 37}) {
      for (const int64_t blocks : {1, 3, 5}) {
        const int64_t cols = format.col_step == 1 ? blocks * 17 : blocks * format.col_step;
        const Product exact(format, rows, cols, 5, ActivationMode::kFloat);
        EXPECT_LT(relative_error(exact.run(0, 5), exact.expected()), allowed_of(cols, 0))
            << rows << " x " << cols;
        const Product fine(format, rows, cols, 5, ActivationMode::kInt16);
        EXPECT_LT(relative_error(fine.run(0, 5), fine.expected()), allowed_of(cols, 32639))
            << rows << " x " << cols;
        const Product coarse(format, rows, cols, 5, ActivationMode::kInt8);
        EXPECT_LT(relative_error(coarse.run(0, 5), coarse.expected()), allowed_of(cols, 127))
            << rows << " x " << cols;
      }
    }
  });
}

TEST_P(Matmul, gives_a_row_the_same_bits_in_any_company) {
  test::for_each_simd_target([&] {
    const Format& format = GetParam();
    const int64_t cols = format.col_step == 1 ? 75 : 3 * format.col_step;
    constexpr int64_t kWidth = 35;
    for (const auto mode : {ActivationMode::kFloat, ActivationMode::kInt8, ActivationMode::kInt16}) {
      const Product product(format, 37, cols, kWidth, mode);
      std::vector<float> alone;
      for (int64_t i = 0; i < kWidth; ++i) {
        const auto row = product.run(i, 1);
        alone.insert(alone.end(), row.begin(), row.end());
      }
      for (int64_t width = 1; width <= kWidth; ++width) {
        for (const int64_t first : {int64_t{0}, kWidth - width}) {
          const auto together = product.run(first, width);
          EXPECT_EQ(std::memcmp(together.data(), &alone[static_cast<size_t>(first * product.out_stride())],
                                together.size() * sizeof(float)),
                    0)
              << "width " << width << " from row " << first;
        }
      }
    }
  });
}

TEST(MatmulGelu, is_the_gelu_of_one_product_times_the_other) {
  constexpr int64_t kRows = 40, kCols = 64, kWidth = 9;
  const Product gate({"", floats<DType::kBf16>, 1}, kRows, kCols, kWidth, ActivationMode::kInt16);
  const Product up({"", affine<4, 64>, 64}, kRows, kCols, kWidth, ActivationMode::kInt16);
  Carver counter;
  Rows rows(counter, kWidth, kCols, ActivationMode::kInt16);
  Buffer memory(counter.used());
  Carver placer(memory.data());
  rows = Rows(placer, kWidth, kCols, ActivationMode::kInt16);
  std::vector<float> out(static_cast<size_t>(kWidth * gate.out_stride()));
  std::vector<Column> columns;
  for (int64_t i = 0; i < kWidth; ++i) {
    for (int64_t c = 0; c < kCols; ++c)
      rows.row(i)[c] = test::noise(23, static_cast<uint64_t>(i * kCols + c));
    rows.finish(i);
    columns.push_back(rows.column(i, &out[static_cast<size_t>(i * gate.out_stride())]));
  }
  matmul_gated(gate.packed(), up.packed(), model::Activation::kGeluTanh, columns, 0, gate.packed().panels);
  const auto gates = gate.run(0, kWidth), ups = up.run(0, kWidth);
  for (size_t i = 0; i < out.size(); ++i) {
    const double g = gates[i];
    const double gelu = 0.5 * g * (1 + std::tanh(0.7978845608028654 * (g + 0.044715 * g * g * g)));
    EXPECT_NEAR(out[i], gelu * ups[i], 1e-5 + 1e-5 * std::abs(gelu * ups[i]));
  }
}

}  // namespace
}  // namespace slip::backend::cpu
