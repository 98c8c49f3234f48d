// Products that two blocks of threads share, each with half of the columns, against the same products one row
// at a time, which a block has alone: all bits must be equal.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/twin_plan.h"
#include "cuda/gpu_fixture.h"
#include "support/memory_tensor.h"

namespace slip::backend::cuda {
namespace {

using test::OwnedMatrix;

OwnedMatrix matrix_of(int bits, int64_t rows, int64_t cols, uint64_t seed) {
  if (bits == 16) return test::random_float_matrix(tensor::DType::kBf16, rows, cols, seed);
  return test::random_affine_matrix(bits, bits == 4 ? 64 : 32, tensor::DType::kBf16, rows, cols, seed);
}

/// Two matrices, or two pairs of them, beside one another, times rows that may be normed; of the first the
/// normed rows are kept.
struct Subject {
  Gpu& gpu;
  bool normed;
  int cols;
  OwnedMatrix sources[4];
  PackedMatrix packed[2];
  DeviceMemory memory[2], out[2];
  std::vector<float> x;
  DeviceMemory rows, norm, squares, kept;

  Subject(Gpu& on, int bits, int tall, int columns, bool pair, bool with_norm)
      : gpu(on), normed(with_norm), cols(columns) {
    const int heights[2] = {tall, 23};
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j)
        sources[2 * i + j] = matrix_of(bits, heights[i], cols, static_cast<uint64_t>(7 + 2 * i + j));
      packed[i] = test::upload_matrix(gpu, sources[2 * i].matrix, heights[i],
                                      pair ? &sources[2 * i + 1].matrix : nullptr, memory[i]);
      out[i] = DeviceMemory(static_cast<size_t>(kMaxRows * heights[i]) * sizeof(float), "results");
    }
    const auto width = static_cast<size_t>(cols);
    x = test::noise(1, kMaxRows * width, 2);
    rows = test::upload(gpu, x);
    norm = test::upload(gpu, test::noise(2, width, 1));
    squares = DeviceMemory(kMaxRows * kWarps * sizeof(float), "squares");
    kept = DeviceMemory(kMaxRows * width * sizeof(float), "normed rows");
  }

  struct Results {
    std::vector<float> out[2], kept;
  };
  /// Rows [first, first + count). Their squares come from a phase that adds nothing to them: a branch of
  /// zeros.
  Results run(int first, int count, int per_pass, bool& twins) {
    const auto width = static_cast<size_t>(cols);
    const DeviceMemory zeros = test::upload(gpu, std::vector<float>(kMaxRows * width));
    DeviceMemory stream(kMaxRows * width * sizeof(float), "the stream");
    for (auto& results : out) gpu.clear(results.data(), results.size());
    Input in;
    in.rows = test::floats(rows) + first * cols;
    in.stride = cols;
    in.cols = cols;
    in.epsilon = 1e-6f;
    Input sum = in;
    sum.branch = test::floats(zeros);
    sum.branch_stride = cols;
    sum.branch_norm = test::floats(norm);
    sum.keep = reinterpret_cast<float*>(stream.data());
    sum.keep_stride = cols;
    sum.squares = reinterpret_cast<float*>(squares.data());
    in.rows = sum.keep;
    in.squares = sum.squares;
    Job job;
    job.rows = count;
    job.twins = count > 2;
    for (int i = 0; i < 2; ++i) {
      Segment& segment = job.segments[job.segment_count++];
      segment.matrix = packed[i];
      segment.in = in;
      segment.normed = normed;
      if (normed) segment.norm = test::floats(norm);
      if (normed && i == 0) {
        segment.keep_normed = reinterpret_cast<float*>(kept.data());
        segment.keep_normed_stride = cols;
      }
      segment.epilogue = packed[i].pair ? Epilogue::kGated : Epilogue::kStore;
      segment.out = reinterpret_cast<float*>(out[i].data());
      segment.out_stride = packed[i].rows;
    }
    StepList list;
    list.add(StepKind::kSum, SumJob{.rows = count, .in = sum}, 0);
    for (int i = 0; i < 2; ++i) list.add_product(gpu, job, 1, 0);  // one may disturb the other
    list.finish(gpu, count, per_pass);
    twins = list.jobs()[0].segments[0].twin >= 0;
    list.start(gpu, nullptr);
    gpu.finish();
    Results results;
    for (int i = 0; i < 2; ++i)
      results.out[i] = test::download(gpu, out[i], static_cast<size_t>(count * packed[i].rows));
    if (normed) results.kept = test::download(gpu, kept, static_cast<size_t>(count) * width);
    return results;
  }
};

struct Shape {
  int bits, rows, cols;
  bool pair, normed;
};
std::string name_of(const testing::TestParamInfo<Shape>& info) {
  const Shape& shape = info.param;
  return std::to_string(shape.bits) + "_bits_" + std::to_string(shape.rows) + "_x_" +
         std::to_string(shape.cols) + (shape.pair ? "_pair" : "") + (shape.normed ? "_normed" : "");
}

class CudaTwins : public test::GpuTest, public testing::WithParamInterface<Shape> {};

TEST_P(CudaTwins, GiveARowTheBitsOfABlockAlone) {
  if (!gpu().info().twins) GTEST_SKIP() << "this GPU has no clusters";
  const Shape shape = GetParam();
  Subject subject(gpu(), shape.bits, shape.rows, shape.cols, shape.pair, shape.normed);
  bool twins = false;
  Subject::Results alone;
  for (int n = 0; n < kMaxRows; ++n) {
    const auto row = subject.run(n, 1, 1, twins);
    ASSERT_FALSE(twins);
    for (int i = 0; i < 2; ++i) alone.out[i].insert(alone.out[i].end(), row.out[i].begin(), row.out[i].end());
    alone.kept.insert(alone.kept.end(), row.kept.begin(), row.kept.end());
  }
  const auto same = [](const std::vector<float>& got, const std::vector<float>& all, int first, int stride) {
    return std::memcmp(got.data(), all.data() + first * stride, got.size() * sizeof(float)) == 0;
  };
  const auto expect_same = [&](int first, int count, int per_pass) {
    const auto got = subject.run(first, count, per_pass, twins);
    EXPECT_TRUE(twins);
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(same(got.out[i], alone.out[i], first, subject.packed[i].rows))
          << count << " rows, matrix " << i;
    EXPECT_TRUE(same(got.kept, alone.kept, first, shape.cols)) << count << " rows kept";
  };
  for (int width = 3; width <= kMaxRows; width += width < 9 ? 1 : 3)
    expect_same(kMaxRows - width, width, width);
  expect_same(0, kMaxRows, 5);
}

// Tiles of one and of two subtiles, one part of a half to eight, last pieces that are half ones, columns of
// more than one turn of the threads, and so many tiles that their sums do not wait for one barrier.
INSTANTIATE_TEST_SUITE_P(Shapes, CudaTwins,
                         testing::Values(Shape{4, 70, 256, false, false}, Shape{4, 40, 448, true, true},
                                         Shape{4, 33, 2816, false, true}, Shape{4, 21, 5376, true, true},
                                         Shape{4, 700, 1536, false, true}, Shape{4, 8200, 256, false, true},
                                         Shape{8, 50, 640, false, true}, Shape{8, 130, 256, true, false},
                                         Shape{16, 70, 332, false, true}, Shape{16, 45, 128, true, false}),
                         name_of);

class CudaTwinPlan : public test::GpuTest {};

PackedMatrix shape_of(int64_t rows, int64_t cols, bool pair) {
  return plan({.format = Format::kAffine4, .groups = 1, .rows = rows, .cols = cols, .pair = pair});
}

/// 31B's rows of 5,376 columns, of which four fit in the shared memory of one block.
TEST_F(CudaTwinPlan, TakesEightRowsOf31BInOnePass) {
  if (!gpu().info().twins) GTEST_SKIP() << "this GPU has no clusters";
  float squares = 0;
  for (const bool known : {false, true}) {
    StepList list;
    for (const PackedMatrix& matrix : {shape_of(21504, 5376, true), shape_of(262144, 5376, false)}) {
      Job job;
      job.rows = 8;
      job.twins = true;
      job.segment_count = 1;
      job.segments[0].matrix = matrix;
      job.segments[0].in.rows = &squares;
      job.segments[0].in.cols = 5376;
      job.segments[0].normed = true;
      job.segments[0].norm = &squares;
      if (known) job.segments[0].in.squares = &squares;
      list.add_product(gpu(), job, 1, 0);
    }
    list.finish(gpu(), 8);
    for (const Job& job : list.jobs()) {
      EXPECT_EQ(job.passes, known ? 1 : 2);
      EXPECT_EQ(job.segment_count, known ? 2 : 1);
    }
  }
}

TEST_F(CudaTwinPlan, LeavesRowsToOneBlockThatNeedAllOfThem) {
  GpuInfo info = gpu().info();
  info.twins = true;
  info.processors = 132;
  float some = 0;
  Job job;
  job.rows = 4;
  job.twins = true;
  job.segment_count = 1;
  Segment& segment = job.segments[0];
  segment.matrix = shape_of(4096, 2816, false);
  segment.in.rows = &some;
  segment.in.cols = 2816;
  EXPECT_TRUE(suits_twins(job, info));
  segment.normed = true;
  EXPECT_FALSE(suits_twins(job, info));
  segment.in.squares = &some;
  EXPECT_TRUE(suits_twins(job, info));
  segment.in.branch = &some;
  EXPECT_FALSE(suits_twins(job, info));
  segment.in.branch = nullptr;
  job.twins = false;
  EXPECT_FALSE(suits_twins(job, info));
  job.twins = true;
  info.processors = 131;
  EXPECT_FALSE(suits_twins(job, info));
  info.processors = 132;
  segment.matrix.count = 8;
  EXPECT_FALSE(suits_twins(job, info));
}

}  // namespace
}  // namespace slip::backend::cuda
