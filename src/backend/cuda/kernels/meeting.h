// The meeting of all blocks before a phase: what the phases before it wrote can be read after it.
#pragma once

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/stage.h"
#include "backend/cuda/kernels/waiting.h"

namespace slip::backend::cuda {

/// Where in shared memory a phase's description is.
__device__ __forceinline__ int phase_at(const SharedPlan& plan, int which) {
  return plan.phases + static_cast<int>(sizeof(Phase)) * (which % kPhasesKept);
}

/// Who arrives when a block is done with a phase, who waits for the other blocks, who brings descriptions of
/// what comes, and who looks up where their weights are: warps that seldom have the end of a tile to work on,
/// and each another one, because arriving takes until all that was written is in its place.
inline constexpr int kArrivingWarp = kWarps - 3, kMeetingWarp = kWarps - 5, kBringingWarp = kWarps - 1,
                     kScoutWarp = kWarps - 2;
inline constexpr int kFewWarp = kWarps - 4;  // has the results of a block that has few

/// Where a warp is: what it must remember from one part of a phase to the next, the same for all its lanes.
/// In shared memory, every warp its own: registers are short while rows are staged, and what the compiler
/// puts on the stack instead comes back from the second-level cache, because each meeting empties the first.
struct alignas(16) Place {
  static constexpr int kAgain = 1 << 30;
  int phase = 0;         // with kAgain where a product has another turn
  int product = 0;       // -1 = none
  int job = 0;           // where in shared memory that is described
  uint32_t brought = 0;  // tiles of keys by bulk copies so far (attend_teams.h), modulo 2
  // Of a product of several turns: the tiles that are this block's, and where it goes on.
  int first = 0, end = 0, tile = 0, pass = 0;
};
__device__ __forceinline__ Place* place_here(const SharedPlan& plan) {
  return shared_at<Place>(plan.places) + thread_here() / 32;
}
/// By one lane.
__device__ __forceinline__ void keep_progress(const SharedPlan& plan, const Place& at) {
  Place* place = place_here(plan);
  place->first = at.first;
  place->end = at.end;
  place->tile = at.tile;
  place->pass = at.pass;
}

/// A phase begins; whatever it forgets meanwhile, where it is can be read from its place.
__device__ __forceinline__ void enter_phase(const SharedPlan& plan, int phase, int product) {
  __syncwarp();  // all lanes know where they were
  if (thread_here() % 32 == 0) {
    Place* place = place_here(plan);
    place->phase = phase;
    place->product = product;
    place->job = job_place(plan, product);
  }
  __syncwarp();
}
/// The job of the product at hand.
__device__ __forceinline__ const OwnJob& job_here(const SharedPlan& plan) {
  return *shared_at<const OwnJob>(place_here(plan)->job);
}

/// Waits until phases 0 .. now - 1 are over everywhere. All threads of the block. `kUnderWay`: the latest
/// groups of copies, which the phase has started itself and does not need yet. All that can be is done before
/// the waiting: nobody goes on until this thread does.
template <int kUnderWay = 0>
__device__ __forceinline__ void meet(const StepArguments& step, int now) {
  copy_wait<kUnderWay>();  // what this warp brings
  if (thread_here() == kMeetingWarp * 32) {
    auto& watch = *shared_at<Watch>(step.plan.watch);
    const bool timed = step.clocks != nullptr && block_here() == 0;
    watch.phase = now;
    if (now > 0) {
      const int missing =
          grid_await(step.arrived, step.arrived_before + static_cast<uint32_t>(now) * gridDim.x);
      if (missing > 0) watch.missing = missing;
    }
    if (timed) step.clocks[2 * now + 1] = clock_now();
  }
  __syncthreads();
}

/// The meeting before a phase, if it is still to come.
struct Meeting {
  int phase;  // -1 = it is over
  __device__ __forceinline__ void hold(const StepArguments& step) const {
    if (phase >= 0) meet(step, phase);
  }
};

/// The block is done with the phase at hand as soon as all its warps have called this; only the one that says
/// so waits for the others. `alone`: what the block wrote since its last barrier is all of one warp
/// (Duty::kFew), which says so and waits for nobody.
__device__ __forceinline__ void arrive(const StepArguments& step, bool alone = false) {
  const bool speaks = uniform(thread_here() / 32) == (alone ? kFewWarp : kArrivingWarp);
  const int over = place_here(step.plan)->phase;
  gather_warp(shared_at<Arrival>(step.plan.done), static_cast<uint32_t>(over) & 1, speaks && !alone);
  if (!speaks || thread_here() % 32 != 0) return;
  if (step.clocks != nullptr && block_here() == 0) step.clocks[2 * over + 2] = clock_now();
  grid_arrive(step.arrived);
}

/// If other blocks never came to the meeting before the phase that is over, whatever it did is void: gives
/// up. In meet() that would take registers from products and attention. By the warp that has waited.
__device__ __forceinline__ void check_meeting(const SharedPlan& plan) {
  if (thread_here() % 32 != 0) return;
  auto& watch = *shared_at<Watch>(plan.watch);
  if (watch.missing == 0) return;
  --watch.phase;  // which all have begun
  give_up(Awaited::kBlocks, watch.missing);
}

}  // namespace slip::backend::cuda
