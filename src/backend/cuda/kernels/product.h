// Rows times matrices, for 1 to 16 rows: the product phases of a step.
//
// A block of 16 warps stages the rows (stage_turn.h) and takes row tiles of one matrix, or of some that
// follow one another in a list, `16 / parts` at a time (tiles.h). Every warp has a stream of its own that
// brings its weights (stream.h). Weight bytes: each once per pass over the rows; activations: every block
// reads all rows once from the second-level cache. All of this is one function after inlining, on purpose:
// what passes between its parts stays in registers, and there is no room for a stack in the first-level cache
// beside 227 KB of shared memory. A small product takes as long as its instructions one after another, so
// whatever can be known before blocks meet is looked up before.
#pragma once

#include "backend/cuda/kernels/expert_list.h"
#include "backend/cuda/kernels/stage_turn.h"
#include "backend/cuda/kernels/tiles.h"

namespace slip::backend::cuda {

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

/// The next turn of a block; `at` is behind it afterwards.
__device__ __forceinline__ TileTurn next_turn(const OwnJob& job, const Duty& duty, Place& at) {
  TileTurn turn;
  turn.run = run_from(job.segment, at.tile, at.end);
  turn.first_row = at.pass * job.frame.rows_per_pass;
  turn.rows = min(job.frame.rows_per_pass, job.frame.rows - turn.first_row);
  turn.half = at.half;
  turn.keeps = duty.kind & Duty::kKeeps;
  at.tile += turn.run.count;
  if (at.tile == at.end) {
    at.tile = at.first;
    ++at.pass;
  }
  turn.more = at.pass < job.frame.passes ? 1 : 0;
  return turn;
}

/// Product number `product` of the step, as phase `now`; its job is in shared memory. Turn by turn: most
/// products are one. What must be remembered while rows are staged waits in shared memory. Arrives at the
/// meeting behind it.
template <int kTiles>
__device__ __forceinline__ void run_product(const StepArguments& step, int now, int product) {
  const SharedPlan& plan = step.plan;
  if (uniform(duty_at(plan, product).kind & Duty::kLearns) != 0) {
    meet(step, now);
    learn_list(plan.arguments, product);
    now = -1;
  }
  const Duty duty = load_words(&duty_at(plan, product));
  if (uniform(duty.first < duty.end ? 1 : 0) == 0) {
    if (now >= 0) {
      meet(step, now);
    } else {
      __syncthreads();  // the scout may go on when all have seen what he found
    }
    arrive(step, place_here(plan)->phase);
    return fill_kept(step);
  }
  Place at{.phase = place_here(plan)->phase,
           .product = product,
           .first = duty.first,
           .end = duty.end,
           .tile = duty.first};
#pragma unroll 1
  while (true) {
    {
      const OwnJob& job = job_at(plan, at.product);
      const TileTurn turn = next_turn(job, duty_at(plan, at.product), at);
      const TileWalk walk = walk_of(step, at, job.segment, thread_here() / 32, turn);
      __syncwarp();
      if (thread_here() % 32 == 0) {
        store_words(walk_here(plan), walk);
        if (turn.more != 0) keep_progress(plan, at);
      }
      stage_turn<kTiles>(step, now, job.segment, turn);
    }
    __syncwarp();
    run_turn<kTiles>(step);
    __syncwarp();
    if (uniform(walk_here(plan)->turn.more) == 0) return;
    look_now(plan.arguments, place_here(plan)->product);  // the scout has found the first kRunsKept runs
    at = load_words(place_here(plan));
    now = -1;
  }
}

}  // namespace slip::backend::cuda
