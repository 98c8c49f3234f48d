// How a step's products are planned: rows of a pass, and the blocks each matrix gets.
#include <gtest/gtest.h>

#include "backend/cuda/kernels/phase.h"
#include "cuda/gpu_fixture.h"
#include "support/memory_tensor.h"

namespace slip::backend::cuda {
namespace {

class CudaPlan : public test::GpuTest {};

/// Matrices whose products are added up by their reader are cut so that eight rows of them fit in shared
/// memory where the model is narrow enough: E4B's down, 26B-A4B's out of all kinds of layers, and both of
/// 12B, of which nothing may be left over.
TEST_F(CudaPlan, TakesEightRowsOfNarrowModelsInOnePassAsPairs) {
  struct Wide {
    int64_t rows, cols;
  };
  for (const Wide wide : {Wide{2560, 10240}, Wide{2816, 4096}, Wide{2816, 8192}, Wide{1536, 12288},
                          Wide{3840, 15360}, Wide{3840, 4096}, Wide{3840, 8192}}) {
    const test::OwnedMatrix source =
        test::random_affine_matrix(4, 64, tensor::DType::kBf16, wide.rows, wide.cols, 1);
    const PackedMatrix packed = plan_sliced(source.matrix);
    StepList list;
    Job job;
    for (int i = 0; i < packed.slices; ++i) {
      Segment& segment = job.segments[job.segment_count++];
      segment.matrix = packed.slice(i);
      segment.in.cols = packed.cols;
    }
    list.add_product(gpu(), job, 1, 0);
    Job reader;
    reader.segment_count = 1;
    reader.segments[0].matrix =
        plan({.format = Format::kAffine4, .groups = 1, .rows = 64, .cols = wide.rows});
    reader.segments[0].in.cols = static_cast<int>(wide.rows);
    list.add_product(gpu(), reader, 1, 0);
    list.finish(gpu(), 8);
    for (const Job& planned : list.jobs()) EXPECT_EQ(planned.passes, 1) << wide.rows << " x " << wide.cols;
  }
}

/// As halves eight rows of the widest model, 31B, are one pass of a kernel with one column tile.
TEST_F(CudaPlan, TakesEightRowsOfEveryModelInOnePassAsHalves) {
  for (const int cols : {1536, 2560, 3840, 5376}) {
    StepList list;
    Job job;
    job.segment_count = 1;
    job.segments[0].matrix =
        plan({.format = Format::kAffine4Halves, .groups = 1, .rows = 4096, .cols = cols});
    job.segments[0].in.cols = cols;
    list.add_product(gpu(), job, 1, 0);
    list.finish(gpu(), 8);
    EXPECT_EQ(list.jobs()[0].passes, 1) << cols << " columns";
  }
}

/// Small tiles of several rows take longer than their bytes do, which shows beside experts.
TEST_F(CudaPlan, DealsBlocksOutByTilesTooBesideExpertsOfSeveralRows) {
  const int processors = gpu().info().processors;
  const auto blocks_of_small_tiles = [&](int rows, int experts) {
    Job job;
    job.rows = rows;
    job.segment_count = 2;
    for (int i = 0; i < 2; ++i) {
      Segment& segment = job.segments[i];
      segment.in.cols = i == 0 ? 4096 : 256;
      segment.matrix = plan({.format = Format::kAffine4,
                             .groups = 1,
                             .rows = i == 0 ? 4096 / experts : 4096,
                             .cols = segment.in.cols,
                             .count = i == 0 ? experts : 1});
    }
    StepList list;
    list.add_product(gpu(), job, experts, 0);
    const Job& dealt = list.jobs().front();
    EXPECT_EQ(dealt.segments[0].blocks + dealt.segments[1].blocks, processors) << rows << " rows";
    return dealt.segments[1].blocks;
  };
  const int by_bytes = blocks_of_small_tiles(1, 4);
  EXPECT_NEAR(by_bytes, processors / 17.0, 1);
  EXPECT_EQ(blocks_of_small_tiles(8, 1), by_bytes);
  EXPECT_EQ(blocks_of_small_tiles(2, 4), by_bytes);
  EXPECT_GE(blocks_of_small_tiles(4, 4), by_bytes);
  EXPECT_GE(blocks_of_small_tiles(8, 4), 2 * by_bytes);  // more would not be left of an emulated device
}

}  // namespace
}  // namespace slip::backend::cuda
