// Every format and width of the narrow product against sums in double precision, and against itself: a row's
// bits must not depend on the rows beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ostream>

#include "backend/cuda/kernels/phase.h"
#include "cuda/gpu_fixture.h"
#include "support/compare.h"
#include "support/memory_tensor.h"

namespace slip::backend::cuda {
namespace {

using tensor::DType;
using test::OwnedMatrix;

struct MatrixKind {
  const char* name;
  OwnedMatrix (*make)(int64_t rows, int64_t cols, uint64_t seed);
  int64_t col_step;
  RowsAs rows_as = RowsAs::kPairs;

  /// Of results: rounding a row's values to 16 or 11 bits.
  double error() const { return rows_as == RowsAs::kHalves ? 5e-4 : 1.5e-5; }
};

OwnedMatrix bf16(int64_t rows, int64_t cols, uint64_t seed) {
  return test::random_float_matrix(DType::kBf16, rows, cols, seed);
}
template <int kBits, int kGroup>
OwnedMatrix affine(int64_t rows, int64_t cols, uint64_t seed) {
  return test::random_affine_matrix(kBits, kGroup, DType::kBf16, rows, cols, seed);
}

void PrintTo(const MatrixKind& kind, std::ostream* to) {
  *to << kind.name;
}
const MatrixKind kKinds[] = {
    {"bf16", bf16, 1},
    {"affine3_group_32", affine<3, 32>, 32},
    {"affine4_group_32", affine<4, 32>, 32},
    {"affine4_group_64", affine<4, 64>, 64},
    {"affine4_group_128", affine<4, 128>, 128},
    {"affine6_group_32", affine<6, 32>, 32},
    {"affine8_group_32", affine<8, 32>, 32},
    {"affine8_group_64", affine<8, 64>, 64},
    {"affine8_group_128", affine<8, 128>, 128},
    {"affine4_group_32_halves", affine<4, 32>, 32, RowsAs::kHalves},
    {"affine4_group_64_halves", affine<4, 64>, 64, RowsAs::kHalves},
    {"affine4_group_128_halves", affine<4, 128>, 128, RowsAs::kHalves},
    {"affine8_group_32_halves", affine<8, 32>, 32, RowsAs::kHalves},
    {"affine8_group_64_halves", affine<8, 64>, 64, RowsAs::kHalves},
};

/// One matrix (or a pair) on the device and rows to multiply with.
class Subject {
 public:
  Subject(Gpu& gpu, const MatrixKind& kind, int64_t rows, int64_t cols, bool pair)
      : gpu_(gpu), source_(kind.make(rows, cols, 11)), up_(kind.make(rows, cols, 12)), cols_(cols) {
    packed_ =
        test::upload_matrix(gpu, source_.matrix, rows, pair ? &up_.matrix : nullptr, memory_, kind.rows_as);
    stride_ = cols + 4;
    std::vector<float> x(static_cast<size_t>(kMaxRows * stride_), NAN);
    for (int n = 0; n < kMaxRows; ++n) {
      for (int64_t c = 0; c < cols; ++c)
        x[static_cast<size_t>(n * stride_ + c)] = test::noise(23, static_cast<uint64_t>(n * cols + c));
    }
    x_ = x;
    rows_ = test::upload(gpu, x);
    out_ = DeviceMemory(static_cast<size_t>(kMaxRows * rows) * sizeof(float), "results");
  }

  void scale_rows(float scale) {
    for (float& x : x_) x *= scale;
    gpu_.to_device(rows_.data(), x_.data(), x_.size() * sizeof(float));
    gpu_.finish();
  }

  void fill_row(int row, float value) {
    std::fill_n(x_.begin() + row * stride_, cols_, value);
    gpu_.to_device(rows_.data(), x_.data(), x_.size() * sizeof(float));
    gpu_.finish();
  }

  /// The product of rows [first, first + count).
  Job job(int first, int count) const {
    Job job;
    job.rows = count;
    job.segment_count = 1;
    Segment& segment = job.segments[0];
    segment.matrix = packed_;
    segment.in.rows = reinterpret_cast<const float*>(rows_.data()) + first * stride_;
    segment.in.stride = stride_;
    segment.in.cols = static_cast<int>(cols_);
    segment.epilogue = packed_.pair ? Epilogue::kGated : Epilogue::kStore;
    segment.out = reinterpret_cast<float*>(out_.data());
    segment.out_stride = packed_.rows;
    return job;
  }
  void clear() { gpu_.clear(out_.data(), out_.size()); }
  /// [count][rows]
  std::vector<float> results(int count) const {
    return test::download(gpu_, out_, static_cast<size_t>(count * packed_.rows));
  }
  /// Rows [first, first + count) in one launch: [count][rows].
  std::vector<float> run(int first, int count, int per_pass = kMaxRows) {
    clear();
    StepList list;
    list.add_product(gpu_, job(first, count), 1, 0);
    list.finish(gpu_, count, per_pass);
    list.start(gpu_, nullptr);
    gpu_.finish();
    return results(count);
  }

  std::vector<double> expected(int count = kMaxRows) const {
    std::vector<double> out;
    std::vector<float> w(static_cast<size_t>(cols_)), u(w);
    tensor::RowReader reader(source_.matrix), up_reader(up_.matrix);
    for (int n = 0; n < count; ++n) {
      for (int64_t r = 0; r < packed_.rows; ++r) {
        reader.floats(r, w.data());
        up_reader.floats(r, u.data());
        double y = 0, up = 0;
        for (int64_t c = 0; c < cols_; ++c) {
          const double x = x_[static_cast<size_t>(n * stride_ + c)];
          y += w[static_cast<size_t>(c)] * x;
          up += u[static_cast<size_t>(c)] * x;
        }
        if (packed_.pair) y = 0.5 * y * (1 + std::tanh(0.7978845608028654 * (y + 0.044715 * y * y * y))) * up;
        out.push_back(y);
      }
    }
    return out;
  }
  const PackedMatrix& packed() const { return packed_; }

 private:
  Gpu& gpu_;
  OwnedMatrix source_, up_;
  int64_t cols_, stride_;
  PackedMatrix packed_;
  std::vector<float> x_;
  DeviceMemory memory_, rows_, out_;
};

using test::relative_error;

class CudaFormats : public test::GpuTest {};
class CudaProduct : public test::GpuTest, public testing::WithParamInterface<MatrixKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CudaProduct, testing::ValuesIn(kKinds),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(CudaProduct, AgreesWithSumsInDoublePrecisionForOddSizes) {
  const MatrixKind& kind = GetParam();
  for (const int64_t rows : {1, 16, 37, 130}) {
    for (const int64_t blocks : {1, 3, 11}) {
      const int64_t cols = kind.col_step == 1 ? blocks * 36 : blocks * kind.col_step;
      for (const bool pair : {false, true}) {
        Subject subject(gpu(), kind, rows, cols, pair);
        // One result of a pair may be small because of either, so there is little to be relative to.
        EXPECT_LT(relative_error(subject.run(0, kMaxRows), subject.expected()), (pair ? 3 : 1) * kind.error())
            << rows << " x " << cols << (pair ? ", a pair" : "");
      }
    }
  }
}

TEST_P(CudaProduct, GivesARowTheSameBitsInAnyCompany) {
  const MatrixKind& kind = GetParam();
  const int64_t cols = kind.col_step == 1 ? 332 : 9 * kind.col_step;
  Subject subject(gpu(), kind, 70, cols, false);
  std::vector<float> alone;
  for (int n = 0; n < kMaxRows; ++n) {
    const auto row = subject.run(n, 1);
    alone.insert(alone.end(), row.begin(), row.end());
  }
  const auto expect_same = [&](const std::vector<float>& got, int first, const std::string& what) {
    EXPECT_EQ(std::memcmp(got.data(), &alone[static_cast<size_t>(first * 70)], got.size() * sizeof(float)), 0)
        << what;
  };
  for (int width = 2; width <= kMaxRows; ++width) {
    for (const int first : {0, kMaxRows - width})
      expect_same(subject.run(first, width), first, "width " + std::to_string(width));
  }
  expect_same(subject.run(0, kMaxRows, 5), 0, "in passes of five rows");
}

/// Which kernel takes a step depends on what most of its weights are; the others may need several passes.
TEST_F(CudaFormats, GivesARowTheSameBitsBesideWeightsOfAnotherFormat) {
  const MatrixKind floats{"bf16", bf16, 1}, pairs{"pairs", affine<4, 64>, 64},
      halves{"halves", affine<4, 64>, 64, RowsAs::kHalves};
  for (const int64_t few : {48, 640}) {  // rows of the matrices of halves: less, or more than the others
    Subject subjects[] = {
        {gpu(), floats, 70, 320, false}, {gpu(), halves, few, 576, false}, {gpu(), pairs, 90, 320, false}};
    for (const int width : {1, 3, 5, 8, 9, 16}) {
      StepList list;
      for (Subject& subject : subjects) {
        subject.clear();
        list.add_product(gpu(), subject.job(0, width), 1, 0);
      }
      list.finish(gpu(), width);
      list.start(gpu(), nullptr);
      gpu().finish();
      for (Subject& subject : subjects) {
        const std::vector<float> together = subject.results(width);
        EXPECT_EQ(together, subject.run(0, width)) << width << " rows, " << few << " of halves";
      }
    }
  }
}

/// Rows may be as large or as small as activations ever are: they are multiplied with powers of two on the
/// way, which must not cost a bit.
TEST_P(CudaProduct, GivesResultsThatScaleWithTheirRows) {
  const MatrixKind& kind = GetParam();
  const int64_t cols = kind.col_step == 1 ? 332 : 9 * kind.col_step;
  Subject subject(gpu(), kind, 70, cols, false);
  const std::vector<float> plain = subject.run(0, 3);
  const bool halves = kind.rows_as == RowsAs::kHalves;
  for (const float scale : {0x1p-60f, 0x1p-40f, 0x1p-20f, 0x1p20f, 0x1p40f, 0x1p60f}) {
    if (!halves && std::fabs(std::log2(scale)) > 40) continue;
    subject.scale_rows(scale);
    std::vector<float> got = subject.run(0, 3);
    for (float& y : got) y /= scale;
    EXPECT_EQ(got, plain) << scale;
    subject.scale_rows(1 / scale);
  }
}

TEST_P(CudaProduct, GivesZeroForARowOfZerosAndLeavesOthersAloneWhereARowIsNotFinite) {
  const MatrixKind& kind = GetParam();
  const int64_t cols = kind.col_step == 1 ? 332 : 9 * kind.col_step;
  Subject subject(gpu(), kind, 70, cols, false);
  const std::vector<float> plain = subject.run(0, 7);
  subject.fill_row(1, 0);
  subject.fill_row(5, INFINITY);
  const std::vector<float> got = subject.run(0, 7);
  for (size_t i = 0; i < got.size(); ++i) {
    if (i / 70 == 1) {
      ASSERT_EQ(got[i], 0) << i;
    } else if (i / 70 == 5) {
      ASSERT_FALSE(std::isfinite(got[i])) << i;
    } else {
      ASSERT_EQ(got[i], plain[i]) << i;
    }
  }
}

/// Slices of a wide matrix, each times its columns, and a reader that adds them: an identity matrix of bf16.
TEST_P(CudaProduct, SlicesOfColumnsAddUpWhereTheyAreRead) {
  const MatrixKind& kind = GetParam();
  constexpr int kRows = 64, kCols = 8192;
  OwnedMatrix source = kind.make(kRows, kCols, 5);
  PackedMatrix packed = plan_sliced(source.matrix, kind.rows_as);
  ASSERT_EQ(packed.slices, 4);
  std::vector<std::byte> host(packed.bytes());
  ThreadPool pool(2);
  pack(source.matrix, nullptr, packed, 0, int64_t{packed.tiles} * packed.slices, host.data(), pool);
  DeviceMemory weights(host.size(), "weights");
  gpu().to_device(weights.data(), host.data(), host.size());
  packed.data = weights.data();
  std::vector<float> x(kMaxRows * kCols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = test::noise(4, i);
  const DeviceMemory rows = test::upload(gpu(), x);
  DeviceMemory partial(4 * kMaxRows * kRows * sizeof(float), "parts"),
      out(kMaxRows * kRows * sizeof(float), "sum");

  OwnedMatrix unit = test::random_float_matrix(DType::kBf16, kRows, kRows, 1);
  for (size_t i = 0; i < kRows * kRows; ++i) unit.weight->set(i, i % kRows == i / kRows ? 1.0f : 0.0f);
  DeviceMemory unit_memory;
  std::vector<double> want;
  std::vector<float> w(kCols);
  tensor::RowReader weight_reader(source.matrix);
  for (size_t n = 0; n < kMaxRows; ++n) {
    for (int64_t r = 0; r < kRows; ++r) {
      weight_reader.floats(r, w.data());
      double sum = 0;
      for (size_t c = 0; c < kCols; ++c) sum += static_cast<double>(w[c]) * x[n * kCols + c];
      want.push_back(sum);
    }
  }
  for (const int width : {3, 8, kMaxRows}) {
    Job job;
    job.rows = width;
    for (int i = 0; i < packed.slices; ++i) {
      Segment& segment = job.segments[job.segment_count++];
      segment.matrix = packed.slice(i);
      segment.in.rows = reinterpret_cast<const float*>(rows.data()) + i * packed.cols;
      segment.in.stride = kCols;
      segment.in.cols = packed.cols;
      segment.out = reinterpret_cast<float*>(partial.data()) + i * kMaxRows * kRows;
      segment.out_stride = kRows;
    }
    StepList list;
    list.add_product(gpu(), job, 1, 0);

    Job reader;
    reader.rows = width;
    reader.segment_count = 1;
    Segment& segment = reader.segments[0];
    segment.matrix = test::upload_matrix(gpu(), unit.matrix, kRows, nullptr, unit_memory);
    segment.in.cols = kRows;
    segment.in.branch = reinterpret_cast<const float*>(partial.data());
    segment.in.branch_stride = kRows;
    segment.in.branch_parts = packed.slices;
    segment.in.part_stride = kMaxRows * kRows;
    segment.out = reinterpret_cast<float*>(out.data());
    segment.out_stride = kRows;
    list.add_product(gpu(), reader, 1, 0);
    list.finish(gpu(), width);
    list.start(gpu(), nullptr);
    gpu().finish();
    const std::vector<double> first(want.begin(), want.begin() + width * kRows);
    EXPECT_LT(relative_error(test::download(gpu(), out, first.size()), first), kind.error())
        << width << " rows";
  }
}

TEST_P(CudaProduct, TakesTallMatricesInWiderTiles) {
  const MatrixKind& kind = GetParam();
  Subject subject(gpu(), kind, 8200, 2 * std::max<int64_t>(kind.col_step, 32), false);
  ASSERT_EQ(subject.packed().subtiles, 2);
  EXPECT_LT(relative_error(subject.run(0, 3), subject.expected(3)), kind.error());
}

}  // namespace
}  // namespace slip::backend::cuda
