// The kernel of a step: one block per multiprocessor, all of them there from the first phase to the last.
#pragma once

#include "backend/cuda/kernels/attend.h"
#include "backend/cuda/kernels/attend_floats.h"
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/heads.h"
#include "backend/cuda/kernels/next_draft.h"
#include "backend/cuda/kernels/per_layer.h"
#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/pick.h"
#include "backend/cuda/kernels/product.h"

namespace slip::backend::cuda {

/// Brings something of the list to shared memory, to be there after copy_wait<0>() and a barrier. By threads
/// from `first` on.
template <typename T>
__device__ __forceinline__ void bring(int place, const T* from, int first = 0) {
  static_assert(sizeof(T) % 16 == 0 && sizeof(T) / 16 <= kBlockThreads);
  const int i = thread_here() - first;
  if (i >= 0 && i < static_cast<int>(sizeof(T) / 16))
    copy_async(shared_memory() + place + i * 16, reinterpret_cast<const std::byte*>(from) + i * 16);
}

/// A phase that is no product. Not inlined: products, which most phases are, should have the registers and
/// the instruction cache of the step to themselves.
__device__ __noinline__ inline void run_other(StepKind kind, int phase_place, int step_place, int work) {
  const Phase& phase = *shared_at<const Phase>(phase_place);
  const Step& rows = *shared_at<const Step>(step_place);
  switch (kind) {
    case StepKind::kHeads: return finish_heads(reinterpret_cast<const HeadsJob&>(phase.body), rows);
    case StepKind::kAttend:
      return attend(phase_place + static_cast<int>(sizeof(PhaseHead)), step_place, work);
    case StepKind::kAttendFloats: return attend_floats(reinterpret_cast<const AttendJob&>(phase.body), rows);
    case StepKind::kCombine: return combine(reinterpret_cast<const CombineJob&>(phase.body), work);
    case StepKind::kPerLayer: return mix_per_layer(reinterpret_cast<const PerLayerJob&>(phase.body));
    case StepKind::kClusters: return choose_clusters(reinterpret_cast<const ClusterJob&>(phase.body), work);
    case StepKind::kPick: return pick(reinterpret_cast<const PickJob&>(phase.body), rows, work);
    case StepKind::kNextDraft: return next_draft(reinterpret_cast<const NextDraftJob&>(phase.body), work);
    case StepKind::kProduct:
    case StepKind::kEmpty: return;
  }
}

__device__ __forceinline__ int phase_at(const SharedPlan& plan, int which) {
  return plan.phases + static_cast<int>(sizeof(Phase)) * (which & 1);
}
__device__ __forceinline__ void bring_phase(const StepArguments& step, int which) {
  constexpr int kFirst = (kWarps - 7) * 32;  // not of the warps that have most to do then
  if (which < step.phase_count) bring(phase_at(step.plan, which), step.phases + which, kFirst);
}
__device__ __forceinline__ void bring_job(const StepArguments& step, int product) {
  constexpr int kFirst = (kWarps - 6) * 32;
  static_assert(sizeof(Job) / 16 <= 6 * 32);
  if (product < step.job_count)
    bring(step.plan.jobs + static_cast<int>(sizeof(Job)) * (product % kJobsKept), step.jobs + product,
          kFirst);
}

/// Shared memory at the start of a step; the first products' weights do not wait for their phases.
__device__ __forceinline__ void start_step(const StepArguments& step) {
  const SharedPlan& plan = step.plan;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kWarps * plan.slots; i += kBlockThreads)
    arrival_init(shared_at<Arrival>(plan.arrivals) + i);
  if (thread < kWarps) {
    shared_at<Stream>(plan.streams)[thread] = Stream();
  }
  if (thread == 0) {
    *shared_at<Watch>(plan.watch) = {step.stuck, 0};
    *shared_at<KnownList>(plan.list) = KnownList();
    *shared_at<Scout>(plan.scout) = Scout();
    *shared_at<int>(plan.found) = 0;
  }
  for (int i = 0; i < kJobsKept; ++i) bring_job(step, i);
  for (int i = 0; i < 2; ++i) bring_phase(step, i);
  if (step.step != nullptr) bring(plan.step, step.step);
  copy_commit();
  copy_wait<0>();
  __syncthreads();
  if (thread / 32 == kScoutWarp) scout_ahead(plan, min(kJobsKept, step.job_count) - 1, 0);
  __syncthreads();
  fill_stream(step);
}

__device__ __forceinline__ PhaseHead phase_head(const SharedPlan& plan, int which) {
  return load_words(shared_at<const PhaseHead>(phase_at(plan, which)));
}

/// After phase `over`: arrives at the meeting behind it and prepares what does not depend on the others, the
/// descriptions after the next ones and the streams of weights. `product`: its number, or -1.
__device__ __forceinline__ void leave_phase(const StepArguments& step, int over, int product) {
  if (thread_here() == kArrivingThread) {
    if (step.clocks != nullptr && blockIdx.x == 0) step.clocks[2 * over + 2] = clock_now();
    if ((step.skipped & kSkipArrival) == 0 || blockIdx.x != 0) grid_arrive(step.arrived);
  }
  bring_phase(step, over + 2);
  if (product >= 0) bring_job(step, product + kJobsKept);
  copy_commit();
  if (product >= 0) fill_stream(step);
}

/// The step, phase by phase. A phase begins before the one before it is over everywhere: it looks up all it
/// can before it meets the other blocks (meeting.h). What other phases than products leave of the registers
/// is on the stack, which comes back from the second-level cache; so after them the number of the phase is
/// read from shared memory.
template <int kTiles>
__device__ __forceinline__ void run_step(const StepArguments& step) {
  start_step(step);
  int now = 0;
#pragma unroll 1
  while (true) {
    const PhaseHead head = phase_head(step.plan, now);
    const auto kind = static_cast<StepKind>(uniform(static_cast<int>(head.kind)));
    int product = -1;
    if (kind == StepKind::kProduct) {
      product = uniform(head.product);
      run_product<kTiles>(step, now, product);
    } else {
      meet(step, now);
      if (kind != StepKind::kEmpty) {
        run_other(kind, phase_at(step.plan, now), step.plan.step, step.plan.work);
        now = uniform(shared_at<const Watch>(step.plan.watch)->phase);
      }
    }
    copy_wait<0>();
    __syncthreads();
    leave_phase(step, now, product);
    if (++now == step.phase_count) break;
  }
  if (step.clocks != nullptr && blockIdx.x == 0) meet(step, now);
}

}  // namespace slip::backend::cuda
