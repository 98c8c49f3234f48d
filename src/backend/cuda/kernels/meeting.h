// The meeting of all blocks before a phase: what the phases before it wrote can be read after it.
#pragma once

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

/// Who arrives when a block is done with a phase, who waits for the other blocks, and who brings descriptions
/// of what comes: warps that seldom have the end of a tile to work on, and each another one, because arriving
/// takes until all that was written is in its place.
inline constexpr int kArrivingWarp = kWarps - 3, kMeetingWarp = kWarps - 5, kBringingWarp = kWarps - 1;

/// Waits until phases 0 .. now - 1 are over everywhere. All threads of the block; between the end of a phase
/// and this, nobody may read its number in shared memory.
__device__ __forceinline__ void meet(const StepArguments& step, int now) {
  copy_wait<0>();  // what this warp brings
  if (thread_here() == kMeetingWarp * 32) {
    if (now > 0) grid_await(step.arrived, step.arrived_before + static_cast<uint32_t>(now) * gridDim.x);
    shared_at<Watch>(step.plan.watch)->phase = now;
    if (step.clocks != nullptr && blockIdx.x == 0) step.clocks[2 * now + 1] = clock_now();
  }
  __syncthreads();
}

/// The block is done with phase `over` as soon as all its threads have called this; only the warp that says so
/// waits for them.
__device__ __forceinline__ void arrive(const StepArguments& step, int over) {
  constexpr int kDone = 15;
  const int thread = thread_here();
  if (thread / 32 != kArrivingWarp) {
    arrive_some(kDone, kBlockThreads);
    return;
  }
  sync_some(kDone, kBlockThreads);
  if (thread % 32 == 0) {
    if (step.clocks != nullptr && blockIdx.x == 0) step.clocks[2 * over + 2] = clock_now();
    if ((step.skipped & kSkipArrival) == 0 || blockIdx.x != 0) grid_arrive(step.arrived);
  }
}

}  // namespace slip::backend::cuda
