// Rows times matrices, for 1 to 16 rows: the product phases of a step.
//
// A block of 16 warps stages the rows (stage_known.h) and takes row tiles of one matrix, `16 / parts` at a
// time (tiles.h). Every warp has a stream of its own that brings its weights (stream.h). Weight bytes: each
// once per pass over the rows; activations: every block reads all rows once from the second-level cache. All
// of this is one function after inlining, on purpose: what passes between its parts stays in registers, and
// there is no room for a stack in the first-level cache beside 227 KB of shared memory. A small product takes
// as long as its instructions one after another, so whatever can be known before blocks meet is looked up
// before.
#pragma once

#include "backend/cuda/kernels/expert_list.h"
#include "backend/cuda/kernels/stage_known.h"
#include "backend/cuda/kernels/tiles.h"

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

/// The norms of a product to come, to the second-level cache: every block of the segment a few lines, by one
/// of its warps.
__device__ __forceinline__ void prefetch_norms(const Segment& segment) {
  constexpr int kLine = 32;  // floats
  const int lane = thread_here() % 32, own = block_here() - segment.first_block;
  const Mixture& mixture = segment.in.mixture;
  const float* norm = lane % 4 == 0   ? segment.norm
                      : lane % 4 == 1 ? segment.in.branch_norm
                      : lane % 4 == 2 ? mixture.dense_norm
                                      : mixture.expert_norm;
  if (norm == nullptr) return;
  for (int at = (own * 8 + lane / 4) * kLine; at < segment.in.cols; at += segment.blocks * 8 * kLine)
    prefetch(norm + at);
}

__device__ __forceinline__ StagedRows rows_of(const OwnJob& job, int pass, int listed) {
  const int first = pass * job.frame.rows_per_pass;
  return {first, min(job.frame.rows_per_pass, job.frame.rows - first), listed};
}

/// A product that is one run of tiles in one pass: most are, and those of experts are where there is one row.
/// `now`: the phase, if the other blocks are still to be met, else -1. What must be remembered while
/// rows are staged waits in shared memory.
template <int kTiles>
__device__ __forceinline__ void run_plain(const StepArguments& step, int now, int product) {
  const SharedPlan& plan = step.plan;
  {
    const OwnJob& job = job_at(plan, product);
    const Duty duty = load_words(&duty_at(plan, product));
    const int warp = thread_here() / 32;
    TileWalk walk = walk_of(step, job.segment, warp, duty.first - duty.listed * job.segment.matrix.tiles,
                            duty.end - duty.first);
    walk.segment = segment_place(plan, product);
    walk.listed = duty.listed;
    walk.phase = place_here(plan)->phase;
    walk.rows = job.frame.rows;
    if (thread_here() % 32 == 0) store_words(shared_at<TileWalk>(plan.walks) + warp, walk);
    stage_rows<kTiles>(step, {now}, job.segment, {0, job.frame.rows, duty.listed});
  }
  __syncwarp();
  TileWalk walk = load_words(shared_at<const TileWalk>(plan.walks) + thread_here() / 32);
  int half = 0;
  run_tiles<kTiles, true>(step, *shared_at<const Segment>(walk.segment), {0, walk.rows, walk.listed}, walk,
                          walk.listed, half, false);
}

/// This block's share of any product, for all rows: pass by pass, run by run.
template <int kTiles>
__device__ __forceinline__ void run_share(const StepArguments& step) {
  const SharedPlan& plan = step.plan;
  bool stages = true;
#pragma unroll 1
  while (true) {
    if (stages) {
      const Place at = load_words(place_here(plan));
      const OwnJob& job = job_at(plan, at.product);
      const Run run = run_from(job.segment, at.tile, at.end);
      const Meeting meeting{uniform(at.waits) != 0 ? at.phase : -1};
      stage_rows<kTiles>(step, meeting, job.segment, rows_of(job, at.pass, run.listed));
      __syncthreads();
    }
    // Looked up again, and not kept.
    Place at = load_words(place_here(plan));
    const OwnJob& job = job_at(plan, at.product);
    const Segment& segment = job.segment;
    const Run run = run_from(segment, at.tile, at.end);
    const StagedRows rows = rows_of(job, at.pass, run.listed);
    if (block_here() == 0 && segment.keep_normed != nullptr && at.tile == at.first)
      finish_kept(&segment, rows, shared_at<const float>(plan.partial) + kWarps * kMaxRows);
    const bool next_pass = at.tile + run.count == at.end, more = !next_pass || at.pass + 1 < job.frame.passes;
    TileWalk walk = walk_of(step, segment, thread_here() / 32, run.tile, run.count);
    // The next run of the pass, whose rows may be others, or the next pass: it waits in shared memory.
    int half = at.half;
    at.tile = next_pass ? at.first : at.tile + run.count;
    at.pass += next_pass ? 1 : 0;
    at.waits = 0;
    at.stages = next_pass || segment.in.slots > 0 ? 1 : 0;
    ++at.turn;
    keep_place(plan, at);
    run_tiles<kTiles, false>(step, segment, rows, walk, run.listed, half, more);
    if (uniform(more ? 1 : 0) == 0) return;
    if (thread_here() % 32 == 0) place_here(plan)->half = half;
    __syncwarp();
    stages = uniform(place_here(plan)->stages) != 0;
    // The scout has found the first kRunsKept runs of the product before, and as many again each time.
    if (uniform(place_here(plan)->turn) % (kRunsKept - 1) == 0) look_now(step, place_here(plan)->product);
  }
}

/// Any product; `now` as above. Not inlined: plain ones should have the registers and the instruction cache
/// to themselves.
template <int kTiles>
__device__ __noinline__ void run_special(int arguments, int now, int product) {
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  const SharedPlan& plan = step.plan;
  const OwnJob& job = job_at(plan, product);
  const Duty duty = load_words(&duty_at(plan, product));
  Place at = load_words(place_here(plan));
  at.first = at.end = 0;
  if (duty.segment >= 0) {
    const Share share = share_of(job.segment, duty, shared_at<const KnownList>(plan.list)->matrices);
    at.first = share.first;
    at.end = share.end;
  }
  at.pass = at.half = at.turn = 0;
  at.waits = now >= 0 ? 1 : 0;
  at.tile = at.first;
  keep_place(plan, at);
  if (uniform(at.first < at.end ? 1 : 0) != 0) {
    run_share<kTiles>(step);
  } else if (now >= 0) {
    meet(step, now);
  } else {
    __syncthreads();  // the scout may go on when all have seen what he found
  }
}

/// Product number `product` of the step, as phase `now`; its job is in shared memory. Arrives at the meeting
/// behind it.
template <int kTiles>
__device__ __forceinline__ void run_product(const StepArguments& step, int now, int product) {
  const SharedPlan& plan = step.plan;
  const int kind = uniform(duty_at(plan, product).kind);
  if ((kind & Duty::kLearns) != 0) {
    meet(step, now);
    learn_list(plan.arguments, product);
    now = -1;
  }
  if ((kind & Duty::kPlain) != 0) {
    run_plain<kTiles>(step, now, product);
  } else {
    run_special<kTiles>(plan.arguments, now, product);
    arrive(step, place_here(plan)->phase);
    fill_now(step);
  }
}

}  // namespace slip::backend::cuda
