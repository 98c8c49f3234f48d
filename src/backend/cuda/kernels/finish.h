// The end of some tiles of a product: the sums that the warps of a block have left, or leave before its next
// barrier, become results (results.h); of all rows, of those that chose a matrix, or of a bunch of a single
// row's experts.
#pragma once

#include "backend/cuda/kernels/results.h"

namespace slip::backend::cuda {

/// The norm's factor of rows that were kept before it was known.
__device__ __noinline__ inline void finish_kept(const Segment* kept, StagedRows rows, const float* partial) {
  const Segment& segment = *kept;
  for (int n = 0; n < rows.count; ++n) {
    const float scale = row_factor(partial, n, segment.in.cols, segment.in.epsilon);
    float* row = segment.keep_normed + (rows.first + n) * segment.keep_normed_stride;
    for (int col = static_cast<int>(threadIdx.x) * 4; col < segment.in.cols; col += kTurnCols) {
      for (int i = 0; i < 4 && col + i < segment.in.cols; ++i) row[col + i] *= scale;
    }
  }
}

/// The results of rounds `first` .. `end` - 1 of a turn's tiles, whose sums the warps of the block have left,
/// or leave before its next barrier. What can be known before that is looked up while others multiply. `few`:
/// one warp has all results.
__device__ __forceinline__ void finish_rounds(const SharedPlan& plan, const Segment& segment,
                                              const TileTurn& turn, int first, int end, int sums, int kind,
                                              bool few) {
  if (few && uniform(thread_here() / 32) != kFewWarp) return __syncthreads();
  const int thread = few ? thread_here() % 32 : thread_here();
  const int rows_log = segment.space.rows_log, n = thread & ((1 << rows_log) - 1), own = thread >> rows_log;
  const int results = (end - first) << (segment.slots_log + results_log_of(segment));
  Result result = find_result(plan, segment, turn, first, sums, n, own, results);
  float factor = 1;
  if (segment.normed) {
    const auto* squares = shared_at<const float>(plan.partial) + kWarps * kMaxRows;
    if (own < results && n < turn.rows) factor = row_factor(squares, n, segment.in.cols, segment.in.epsilon);
    if ((kind & Duty::kKeeps) != 0 && uniform(first) == 0)
      finish_kept(&segment, {turn.first_row, turn.rows, 0}, squares);
  }
  __syncthreads();
#pragma unroll 1
  for (int i = own; i < results;) {
    if (result.parts >= 0) finish_result(segment, result, rows_log, turn.first_row + n, factor);
    i += kBlockThreads >> rows_log;
    if (i >= results) break;
    result = find_result(plan, segment, turn, first, sums, n, i, results);
  }
}

/// The same of a stack, of whose matrices every row has chosen few: a thread has a row of a tile, and takes
/// one after another those of the step that chose its matrix, of which there are seldom two.
__device__ __forceinline__ void finish_chosen(const SharedPlan& plan, const Segment& segment,
                                              const TileTurn& turn, int first, int end, int sums) {
  const int rows_log = segment.space.rows_log;
  const int results = (end - first) << (segment.slots_log + results_log_of(segment));
  const auto* squares = shared_at<const float>(plan.partial) + kWarps * kMaxRows;
  const bool normed = segment.normed;
  __syncthreads();
#pragma unroll 1
  for (int i = thread_here(); i < results; i += kBlockThreads) {
    const int8_t* chosen = nullptr;
    const Result first_row = locate_result(plan, segment, turn, first, sums, 0, i, chosen);
    if (first_row.parts < 0) continue;
    uint32_t rows = rows_that_chose(chosen) >> turn.first_row & ((1u << turn.rows) - 1);
#pragma unroll 1
    for (; rows != 0; rows &= rows - 1) {
      const int n = first_bit(rows);
      Result result = first_row;
      result.parts += n * 64;
      find_target(segment, chosen, turn.first_row + n, result);
      const float factor = normed ? row_factor(squares, n, segment.in.cols, segment.in.epsilon) : 1;
      finish_result(segment, result, rows_log, turn.first_row + n, factor);
    }
  }
}

/// The shares of a bunch's experts are on their way, to where sums of squares are in other products, until
/// finish_bunch(). By any thread.
__device__ __forceinline__ void bring_shares(const SharedPlan& plan, const Segment& segment, int listed) {
  static_assert(kBunch * sizeof(float) == 16);
  if (thread_here() == 0) copy_async(shared_at<float>(plan.partial), segment.bunch_shares + listed);
  copy_commit();
}
/// As finish_rounds(), of a bunch of a single row's experts: what they give is weighted with their shares and
/// added up, in their order. Not inlined: few products need it.
__device__ __noinline__ inline void finish_bunch(const Segment* bunch, const TileTurn* at, int first, int end,
                                                 int sums, int shares) {
  const Segment& segment = *bunch;
  const TileTurn& turn = *at;
  const int results_log = results_log_of(segment), slots_log = segment.slots_log,
            parts_log = segment.parts_log, results = (end - first) << (slots_log + results_log);
  float* out = segment.out + turn.run.listed / kBunch * static_cast<int>(segment.out_stride);
  int row = 0;
  // Where the first matrix's sums of result i are; -1 = there is none. Which row it is is said beside.
  const auto place_of = [&](int i) {
    const int r = i & ((1 << results_log) - 1), slot = i >> results_log & ((1 << slots_log) - 1),
              round = i >> (results_log + slots_log);
    const WarpShare own = warp_share(segment, slot << parts_log, turn.run.count);
    row = ((turn.run.tile + own.first + first + round) << results_log) + r;
    if (i >= results || first + round >= own.count || row >= segment.matrix.rows) return -1;
    const int part = (round * segment.matrix.subtiles + r / 16) * kWarps + (slot << parts_log);
    return sums + (part * 16 + r % 16) * 4;
  };
  int i = thread_here(), place = place_of(i);
  copy_wait<0>();
  __syncthreads();
  const float4 four = *shared_at<const float4>(shares);
  const float share[kBunch] = {four.x, four.y, four.z, four.w};
#pragma unroll 1
  while (i < results) {
    if (place >= 0) {
      const auto* from = shared_at<const float>(place);
      float sum = 0;
#pragma unroll
      for (int m = 0; m < kBunch; ++m)
        sum = fmaf(share[m], sum_parts(from + m * (kWarps / kBunch * 16), 1 << parts_log, 16), sum);
      out[row] = sum;
    }
    i += kBlockThreads;
    place = place_of(i);
  }
}

}  // namespace slip::backend::cuda
