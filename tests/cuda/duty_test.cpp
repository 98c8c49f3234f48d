// What the host tells every block of threads to do for a product.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "backend/cuda/kernels/duties.h"

namespace slip::backend::cuda {
namespace {

constexpr int kBlocks = 132;

/// One matrix of 4 bits in tiles of 16 rows, as StepList leaves it.
Job job_of(int tiles, int pieces, int parts_log, int blocks) {
  Job job;
  job.segment_count = 1;
  job.rows = job.rows_per_pass = job.passes = 1;
  job.matrices = 1;
  Segment& segment = job.segments[0];
  segment.matrix.format = Format::kAffine4;
  segment.matrix.groups = 1;
  segment.matrix.tiles = tiles;
  segment.matrix.pieces = pieces;
  segment.matrix.parts = 1 << parts_log;
  segment.parts_log = parts_log;
  segment.slots_log = slots_log_of(segment.matrix.parts, false);
  segment.blocks = blocks;
  segment.staging = 5;
  segment.space.batch = 16;
  return job;
}

TEST(CudaDuty, EveryPieceOfEveryTileFallsToOneWarp) {
  for (const int tiles : {1, 5, 132, 133, 700}) {
    for (const int parts_log : {0, 1, 2, 3, 4}) {
      for (const int pieces : {16, 17, 42}) {
        const int blocks = std::min(tiles, 130);  // the last two have nothing to do
        const DutyTable table = duties_of({job_of(tiles, pieces, parts_log, blocks)}, kBlocks, kSkipNothing);
        ASSERT_EQ(table.duties.size(), static_cast<size_t>(kBlocks));
        std::map<std::pair<int, int>, int> times;
        for (const Duty& duty : table.duties) {
          ASSERT_TRUE(duty.known());
          if (duty.segment < 0) {
            EXPECT_EQ(duty.kind & Duty::kSimple, 0);
            continue;
          }
          ASSERT_NE(duty.kind & Duty::kSimple, 0);
          EXPECT_EQ(duty.turn.run.tile, duty.first);
          EXPECT_EQ(duty.turn.run.count, duty.end - duty.first);
          for (int warp = 0; warp < kWarps; ++warp) {
            const WarpShare& share = table.shares.at(static_cast<size_t>(duty.shares * kWarps + warp));
            EXPECT_LE(share.count, duty.turn.rounds);
            for (int tile = share.first; tile < share.first + share.count; ++tile) {
              for (int piece = share.piece; piece < share.piece_end; ++piece)
                ++times[{duty.first + tile, piece}];
            }
          }
        }
        ASSERT_EQ(times.size(), static_cast<size_t>(tiles * pieces));
        for (const auto& [place, count] : times) ASSERT_EQ(count, 1) << place.first << ", " << place.second;
      }
    }
  }
}

TEST(CudaDuty, ATurnThatTheKernelHasToWorkOutIsNotSimple) {
  const auto simple = [](const Job& job) {
    return (duties_of({job}, kBlocks, kSkipNothing).duties.front().kind & Duty::kSimple) != 0;
  };
  Job job = job_of(kBlocks * 8, 16, 3, kBlocks);  // eight tiles in two slots
  job.segments[0].space.batch = 4;
  EXPECT_TRUE(simple(job));
  job.segments[0].space.batch = 3;  // sums of three rounds wait for one barrier
  EXPECT_FALSE(simple(job));
  job.segments[0].space.batch = 4;
  job.passes = 2;
  EXPECT_FALSE(simple(job));
  job.passes = 1;
  job.segments[0].matrix.count = 40;  // matrices of a list that is not known yet
  EXPECT_FALSE(simple(job));
}

/// Eight of 128 experts.
Job experts_job() {
  Job job = job_of(44, 16, 2, kBlocks);
  job.stacked = true;
  job.matrices = 8;
  job.route.experts = 128;
  job.segments[0].matrix.count = 128;
  return job;
}

TEST(CudaDuty, ExpertsOfOneRowAreDealtOutBeforeTheyAreChosen) {
  const Job job = experts_job();
  const DutyTable table = duties_of({job, job}, kBlocks, kSkipNothing);
  for (int block = 0; block < kBlocks; ++block) {
    const Duty &first = table.duties[static_cast<size_t>(block)],
               &second = table.duties[static_cast<size_t>(kBlocks + block)];
    EXPECT_NE(first.kind & Duty::kSimple, 0);
    EXPECT_NE(first.kind & Duty::kLearns, 0);
    EXPECT_EQ(second.kind & Duty::kLearns, 0);  // of the same list
    EXPECT_NE(first.kind & Duty::kStagesAlong, 0);
    EXPECT_EQ(second.kind & Duty::kStagesAlong, 0);
    EXPECT_EQ(first.turn.run.listed, first.first / 44);
    EXPECT_EQ(first.turn.run.tile, first.first % 44);
  }
}

TEST(CudaDuty, ARowIsStagedWhileItsExpertsAreChosenUnlessItNeedsThem) {
  const Job job = experts_job();
  const auto along = [](const Job& some) {
    return (duties_of({some}, kBlocks, kSkipNothing).duties.front().kind & Duty::kStagesAlong) != 0;
  };
  EXPECT_TRUE(along(job));
  Job own_rows = job;
  own_rows.segments[0].in.slots = 8;
  EXPECT_FALSE(along(own_rows));
  Job branch = job;
  branch.segments[0].staging = 13;
  EXPECT_FALSE(along(branch));
  Job clusters = job;  // whose list is read
  clusters.route.experts = 0;
  EXPECT_FALSE(along(clusters));
}

TEST(CudaDuty, TheResultsOfOneSlotAndRowAreThoseOfOneWarp) {
  const auto few = [](int parts_log, int rows_log) {
    Job job = job_of(1, 16, parts_log, 1);
    job.segments[0].space.rows_log = rows_log;
    return (duties_of({job}, kBlocks, kSkipNothing).duties.front().kind & Duty::kFew) != 0;
  };
  EXPECT_TRUE(few(4, 0));
  EXPECT_TRUE(few(3, 0));
  EXPECT_FALSE(few(2, 0));  // results are looked for in all slots of a round
  EXPECT_TRUE(few(4, 1));
  EXPECT_FALSE(few(4, 2));
}

TEST(CudaDuty, SaysWhatABenchmarkLeavesOut) {
  const Job job = job_of(8, 16, 2, 8);
  const auto kind = [&](int skipped) { return duties_of({job}, kBlocks, skipped).duties.front().kind; };
  EXPECT_NE(kind(kSkipNothing) & Duty::kOneRow, 0);
  EXPECT_EQ(Duty::staging(kind(kSkipNothing)), 5);
  EXPECT_EQ(kind(kSkipStage) & Duty::kOneRow, 0);
  EXPECT_NE(kind(kSkipStage) & Duty::kNotStaged, 0);
  EXPECT_NE(Duty::multiplying(kind(kSkipMultiply)), Duty::multiplying(kind(kSkipNothing)));
  EXPECT_EQ(kind(kSkipMultiply) & Duty::kEights, 0);  // rows lie as the weights ask for, used or not
}

}  // namespace
}  // namespace slip::backend::cuda
