// The meeting of all blocks before a phase: what the phases before it wrote can be read after it.
#pragma once

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

/// Who arrives, and who waits for the others: in warps that seldom have the end of a tile to work on, and not
/// in the same one, because arriving takes until all that was written is in its place.
inline constexpr int kArrivingThread = (kWarps - 3) * 32, kMeetingThread = (kWarps - 5) * 32;

/// Waits until phases 0 .. now - 1 are over everywhere. All threads of the block; between the end of a phase
/// and this, nobody may read its number in shared memory.
__device__ __forceinline__ void meet(const StepArguments& step, int now) {
  if (thread_here() == kMeetingThread) {
    if (now > 0) grid_await(step.arrived, step.arrived_before + static_cast<uint32_t>(now) * gridDim.x);
    shared_at<Watch>(step.plan.watch)->phase = now;
    if (step.clocks != nullptr && blockIdx.x == 0) step.clocks[2 * now + 1] = clock_now();
  }
  __syncthreads();
}

}  // namespace slip::backend::cuda
