// The sum of a stream and its branch: made in a phase of its own, or by products of any width while they
// stage their rows. All must give the same bits, and the right ones.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/kernels/phase.h"
#include "cuda/gpu_fixture.h"
#include "support/memory_tensor.h"

namespace slip::backend::cuda {
namespace {

using test::OwnedMatrix;

class CudaSum : public test::GpuTest, public testing::WithParamInterface<int> {};

constexpr int kParts = 3;
constexpr float kScalar = 0.75f, kEpsilon = 1e-6f;

/// x = (x + norm(sum of the branch's parts)) * scalar, of each row.
std::vector<double> expected(const std::vector<float>& x, const std::vector<float>& branch,
                             const std::vector<float>& norm, size_t cols, size_t rows) {
  std::vector<double> want(rows * cols);
  for (size_t n = 0; n < rows; ++n) {
    std::vector<double> sum(cols);
    double squares = 0;
    for (size_t c = 0; c < cols; ++c) {
      for (size_t part = 0; part < kParts; ++part) sum[c] += branch[(part * kMaxRows + n) * cols + c];
      squares += sum[c] * sum[c];
    }
    const double factor = 1 / std::sqrt(squares / static_cast<double>(cols) + kEpsilon);
    for (size_t c = 0; c < cols; ++c)
      want[n * cols + c] = (x[n * cols + c] + sum[c] * factor * norm[c]) * kScalar;
  }
  return want;
}

TEST_P(CudaSum, IsTheSameWhoeverMakesIt) {
  const int cols = GetParam();
  const auto width = static_cast<size_t>(cols);
  const std::vector<float> x = test::noise(1, kMaxRows * width, 1),
                           parts = test::noise(2, kParts * kMaxRows * width, 3),
                           weights = test::noise(3, width, 2);
  const DeviceMemory rows = test::upload(gpu(), x), branch = test::upload(gpu(), parts),
                     norm = test::upload(gpu(), weights);
  DeviceMemory kept(kMaxRows * width * sizeof(float), "sums"), out(kMaxRows * 16 * sizeof(float), "results");
  Input in;
  in.rows = test::floats(rows);
  in.stride = cols;
  in.cols = cols;
  in.branch = test::floats(branch);
  in.branch_stride = cols;
  in.branch_parts = kParts;
  in.part_stride = int64_t{kMaxRows} * cols;
  in.branch_norm = test::floats(norm);
  in.scalar = kScalar;
  in.epsilon = kEpsilon;
  in.keep = reinterpret_cast<float*>(kept.data());
  in.keep_stride = cols;

  const std::vector<double> want = expected(x, parts, weights, width, kMaxRows);
  const auto sums_of = [&](StepList& list, int count) {
    gpu().clear(kept.data(), kept.size());
    list.finish(gpu(), count);
    list.start(gpu(), nullptr);
    gpu().finish();
    return test::download(gpu(), kept, static_cast<size_t>(count) * width);
  };
  StepList alone;
  alone.add(StepKind::kSum, SumJob{.rows = kMaxRows, .in = in}, 0);
  const std::vector<float> sums = sums_of(alone, kMaxRows);
  for (size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(sums[i], want[i], 2e-5) << i;

  OwnedMatrix source = test::random_affine_matrix(4, 32, tensor::DType::kBf16, 16, (cols + 31) / 32 * 32, 5);
  DeviceMemory memory;
  PackedMatrix packed = test::upload_matrix(gpu(), source.matrix, 16, nullptr, memory);
  for (const int count : {1, 2, 3, 4, 6, 16}) {
    Job job;
    job.rows = count;
    job.segment_count = 1;
    Segment& segment = job.segments[0];
    segment.matrix = packed;
    segment.in = in;
    segment.normed = true;
    segment.norm = in.branch_norm;
    segment.out = reinterpret_cast<float*>(out.data());
    segment.out_stride = 16;
    StepList list;
    list.add_product(gpu(), job, 1, 0);
    const std::vector<float> by_product = sums_of(list, count);
    for (size_t i = 0; i < by_product.size(); ++i)
      ASSERT_EQ(by_product[i], sums[i]) << count << " rows, column " << i;
  }
}

// One turn of the threads, two and three; odd ends.
INSTANTIATE_TEST_SUITE_P(Columns, CudaSum, testing::Values(96, 1540, 2816, 3840, 5376),
                         [](const auto& cols) { return std::to_string(cols.param); });

}  // namespace
}  // namespace slip::backend::cuda
