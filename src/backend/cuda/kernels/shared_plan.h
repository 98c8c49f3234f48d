// Shared memory of a step: how large what its phases keep there is, and where all of it lies. Weights under
// way have what is left, at least two places in every warp's ring, else fewer rows are taken at a time.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/stage.h"
#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {

inline constexpr int kLeastSlots = 2;  // else fewer rows at a time

template <typename T>
T job_of(const Phase& phase) {
  T job;
  std::memcpy(static_cast<void*>(&job), phase.body, sizeof(job));
  return job;
}

inline int stage_aligned(int bytes) {
  return (bytes + kStageAlignment - 1) / kStageAlignment * kStageAlignment;
}

/// How many rows of a product find room in as many column tiles of the kernel.
inline int most_rows(const Job& job, int tiles) {
  int most = kMaxRows;
  for (int i = 0; i < job.segment_count; ++i) {
    const Format format = job.segments[i].matrix.format;
    most = std::min(most, column_tiles(format, tiles) * rows_of_tile(format));
  }
  return most;
}

/// Shared memory of a step of `rows` rows with `tiles` column tiles; `slots` is 0 where there is no room.
SharedPlan plan_shared(const std::vector<Phase>& phases, const std::vector<Job>& jobs, int rows, int tiles,
                       int limit);

/// Whether attention follows on a product, which begins before all warps are done with the one before it.
bool attends_next(const std::vector<Phase>& phases, size_t product);
/// Where a segment's rows are staged: at the end of the space to work in, so that sums may take what is left
/// of it before them; where each matrix has rows of its own, from its start on.
int stage_place(const SharedPlan& plan, const Segment& segment, int tiles);
/// Where the sums of a segment's tiles go, whose rows have a place: there may be more room than what is set
/// aside.
struct SumSpace {
  int place, floats;
};
SumSpace sum_space(const SharedPlan& plan, const Segment& segment, int tiles, bool attends);

}  // namespace slip::backend::cuda
