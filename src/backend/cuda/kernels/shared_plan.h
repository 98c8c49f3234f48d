// Shared memory of a step: how large what its phases keep there is, and where all of it lies. Weights under
// way have what is left, at least two places in every warp's ring, else fewer rows or columns are taken at a
// time.
#pragma once

#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/stage.h"
#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {

inline constexpr int kLeastSlots = 2;  // else fewer rows at a time
inline constexpr int kAllColumns = std::numeric_limits<int>::max();

template <typename T>
T job_of(const Phase& phase) {
  T job;
  std::memcpy(static_cast<void*>(&job), phase.body, sizeof(job));
  return job;
}

inline int stage_aligned(int bytes) {
  return (bytes + kStageAlignment - 1) / kStageAlignment * kStageAlignment;
}

/// Pieces of columns that are staged at once: of more than `most` columns, if there is such a bound, half.
int staged_pieces(const Segment& segment, int tiles, int most);

/// Shared memory of a step of `rows` rows with `tiles` column tiles; `slots` is 0 where there is no room.
/// `most`: rows of more columns are taken in two spans, where they can be.
SharedPlan plan_shared(const std::vector<Phase>& phases, const std::vector<Job>& jobs, int rows, int tiles,
                       int limit, int most = kAllColumns);
/// The most columns of which eight rows are staged at once, so that there is room for two places in every
/// ring; nothing where there is no room even if all wider ones are taken in spans.
std::optional<int> most_columns(const std::vector<Phase>& phases, const std::vector<Job>& jobs, int rows,
                                int limit);

/// Whether attention follows on a product, which begins before all warps are done with the one before it.
bool attends_next(const std::vector<Phase>& phases, size_t product);
/// Where the sums of a segment's tiles go: there may be more room behind its rows than what is set aside.
struct SumSpace {
  int place, floats;
};
SumSpace sum_space(const SharedPlan& plan, const Segment& segment, int tiles, int most, bool attends);

}  // namespace slip::backend::cuda
