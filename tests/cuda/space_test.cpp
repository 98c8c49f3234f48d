// What fits in the shared memory of a step, for the shapes of real models: the only thing that decides
// whether weights are read once for eight rows.
#include <gtest/gtest.h>

#include "backend/cuda/kernels/shared_plan.h"
#include "backend/cuda/pack.h"

namespace slip::backend::cuda {
namespace {

constexpr int kSharedOfH200 = 232448;

Phase attention(int head_dim, bool k_is_v, int pairs) {
  AttendJob job{};
  job.own.cache.head_dim = head_dim;
  job.own.cache.k_is_v = k_is_v;
  job.own.turns.pairs = pairs;
  Phase phase;
  phase.kind = StepKind::kAttend;
  phase.set(job);
  return phase;
}

/// A product with a matrix of 4 bits in groups of 64, whose rows come as they are.
Job product(int64_t rows, int64_t cols, bool pair, int slices) {
  Job job;
  job.segment_count = 1;
  Segment& segment = job.segments[0];
  segment.matrix = plan(
      {.format = Format::kAffine4, .groups = 1, .rows = rows, .cols = cols, .pair = pair, .slices = slices});
  segment.in.cols = segment.matrix.cols;
  segment.staging = 1;  // some way
  return job;
}

TEST(CudaSpace, HasRoomForEightRowsOf31BInSpansOfColumns) {
  const std::vector<Phase> phases = {attention(256, false, 128), attention(512, true, 64)};
  const std::vector<Job> jobs = {
      product(8192, 5376, false, 1),  product(4096, 5376, false, 1),  product(5376, 8192, false, 2),
      product(16384, 5376, false, 1), product(2048, 5376, false, 1),  product(5376, 16384, false, 4),
      product(21504, 5376, true, 1),  product(5376, 21504, false, 4), product(262144, 5376, false, 1)};
  EXPECT_LT(plan_shared(phases, jobs, 8, 2, kSharedOfH200).slots, kLeastSlots);
  const auto most = most_columns(phases, jobs, 8, kSharedOfH200);
  ASSERT_TRUE(most.has_value());
  const SharedPlan plan = plan_shared(phases, jobs, 8, 2, kSharedOfH200, *most);
  EXPECT_GE(plan.slots, kLeastSlots);
  EXPECT_LE(plan.end, kSharedOfH200);
}

/// However few pieces a part has: of every part the first ones come first, all are staged once, and no span
/// has more than half of them.
TEST(CudaSpace, SpansShareThePiecesOfEveryPart) {
  for (int pieces = 1; pieces <= 60; ++pieces) {
    for (int parts = 1; parts <= kWarps && parts <= pieces; parts *= 2) {
      PackedMatrix matrix;
      matrix.pieces = pieces;
      matrix.parts = parts;
      int staged[kSpans] = {};
      for (int part = 0; part < parts; ++part) {
        int next = matrix.part_begin(part);
        for (int span = 0; span < kSpans; ++span) {
          const SpanPieces own = span_pieces(matrix, part, span);
          EXPECT_EQ(own.first, next);
          EXPECT_EQ(own.staged, staged[span]);
          EXPECT_GE(own.count, 0);
          next += own.count;
          staged[span] += own.count;
        }
        EXPECT_EQ(next, matrix.part_begin(part + 1));
      }
      for (const int count : staged) EXPECT_LE(count, (pieces + 1) / kSpans);
    }
  }
}

}  // namespace
}  // namespace slip::backend::cuda
