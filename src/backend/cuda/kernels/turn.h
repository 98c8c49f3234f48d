// What a block has to do for a product, turn by turn. Most products are one turn, which the host has worked
// out (Duty::kSimple); others are worked out here before each turn.
#pragma once

#include "backend/cuda/kernels/meeting.h"
#include "backend/cuda/kernels/stream.h"

namespace slip::backend::cuda {

/// The ways to multiply, as Segment::multiplying; and not to, so that a benchmark sees what the weights cost.
/// Odd ones take two subtiles at a time.
__host__ __device__ constexpr int multiplying(Format format, int groups, int subtiles) {
  const int kind =
      format == Format::kBf16 ? 8 : (in_halves(format) ? 4 : 0) + (is_eights(format) ? 2 : 0) + groups - 1;
  return 2 * kind + subtiles - 1;
}
__host__ __device__ constexpr int passing_on(int subtiles) {
  return multiplying(Format::kBf16, 0, 2) + subtiles;
}
__host__ __device__ constexpr int subtiles_of(int way) {
  return way % 2 + 1;
}

/// A turn that had to be worked out, and a warp's share of it. In shared memory, every warp its own.
struct alignas(16) TileWalk {
  TileTurn turn;
  WarpShare share;
  int round = 0;  // of tiles, the first of those at hand
  int unused[3] = {};
};
__device__ __forceinline__ TileWalk* walk_here(const SharedPlan& plan) {
  return shared_at<TileWalk>(plan.walks) + thread_here() / 32;
}

/// The turn at hand. `kind`: that of the duty.
__device__ __forceinline__ const TileTurn& turn_here(const SharedPlan& plan, int product, int kind) {
  return (kind & Duty::kSimple) != 0 ? duty_at(plan, product).turn : walk_here(plan)->turn;
}

/// The next turn of a block; `at` is behind it afterwards.
__device__ __forceinline__ TileTurn next_turn(const OwnJob& job, Place& at) {
  TileTurn turn;
  turn.run = run_from(job.segment, at.tile, at.end);
  turn.first_row = at.pass * job.frame.rows_per_pass;
  turn.rows = min(job.frame.rows_per_pass, job.frame.rows - turn.first_row);
  at.tile += turn.run.count;
  if (at.tile == at.end) {
    at.tile = at.first;
    ++at.pass;
  }
  turn.more = at.pass < job.frame.passes ? 1 : 0;
  return turn;
}

/// Works out the next turn of a product that is not simple; false where the block has none. `again`: it is
/// not the first. Not inlined: few products of a single row need it.
__device__ __noinline__ inline bool begin_turn(int arguments, bool again) {
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  const SharedPlan& plan = step.plan;
  Place at = load_words(place_here(plan));
  const OwnJob& job = job_here(plan);
  if (again) {
    look_now(arguments, at.product);  // the scout has found the first kRunsKept runs
  } else {
    const Duty& duty = duty_at(plan, at.product);
    at.first = at.tile = duty.first;
    at.end = duty.end;
    at.pass = 0;
    if (at.first >= at.end) return false;
  }
  TileWalk walk;
  walk.turn = next_turn(job, at);
  if (again) walk.turn.half = walk_here(plan)->turn.half;
  walk.turn.rounds = rounds_of(job.segment, walk.turn.run.count);
  walk.share = staged_share(job.segment, thread_here() / 32, walk.turn.run.count);
  __syncwarp();
  if (thread_here() % 32 == 0) {
    store_words(walk_here(plan), walk);
    keep_progress(plan, at);
  }
  __syncwarp();
  return true;
}

}  // namespace slip::backend::cuda
