// The kernel of a step: one block per multiprocessor, all of them there from the first phase to the last.
#pragma once

#include "backend/cuda/kernels/attend.h"
#include "backend/cuda/kernels/attend_floats.h"
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/heads.h"
#include "backend/cuda/kernels/per_layer.h"
#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/pick.h"
#include "backend/cuda/kernels/product.h"

namespace slip::backend::cuda {

/// Brings something of the list to shared memory, to be there after copy_wait<0>() and a barrier.
template <typename T>
__device__ __forceinline__ void bring(int place, const T* from) {
  static_assert(sizeof(T) % 16 == 0 && sizeof(T) / 16 <= kBlockThreads);
  const int i = static_cast<int>(threadIdx.x);
  if (i < static_cast<int>(sizeof(T) / 16))
    copy_async(shared_memory() + place + i * 16, reinterpret_cast<const std::byte*>(from) + i * 16);
}

template <int kTiles>
__device__ __forceinline__ void run_phase(const StepArguments& step, int phase_place) {
  const Phase& phase = *shared_at<const Phase>(phase_place);
  const int work = step.plan.work;
  const Step& rows = *shared_at<const Step>(step.plan.step);
  switch (phase.kind) {
    case StepKind::kProduct: return run_product<kTiles>(step, phase.product);
    case StepKind::kHeads: return finish_heads(reinterpret_cast<const HeadsJob&>(phase.body), rows);
    case StepKind::kAttend:
      return attend(phase_place + static_cast<int>(offsetof(Phase, body)), step.plan.step, work);
    case StepKind::kAttendFloats: return attend_floats(reinterpret_cast<const AttendJob&>(phase.body), rows);
    case StepKind::kCombine: return combine(reinterpret_cast<const CombineJob&>(phase.body), work);
    case StepKind::kPerLayer: return mix_per_layer(reinterpret_cast<const PerLayerJob&>(phase.body));
    case StepKind::kClusters: return choose_clusters(reinterpret_cast<const ClusterJob&>(phase.body), work);
    case StepKind::kPick: return pick(reinterpret_cast<const PickJob&>(phase.body), rows, work);
    case StepKind::kEmpty: return;
  }
}

/// The first product's weights do not wait for its phase.
__device__ __forceinline__ void start_stream(const StepArguments& step) {
  Stream stream;
  stream.first_slot = thread_here() / 32 * step.plan.slots;
  stream.look_ahead(step, step.job_count > 0 ? 0 : -1);
  keep_stream(step.plan, stream);
}

template <int kTiles>
__device__ __forceinline__ void run_step(const StepArguments& step) {
  const SharedPlan& plan = step.plan;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kWarps * plan.slots; i += kBlockThreads)
    arrival_init(shared_at<Arrival>(plan.arrivals) + i);
  if (thread < kWarps) shared_at<StreamAhead>(plan.ahead)[thread] = StreamAhead();
  if (thread == 0) {
    *shared_at<Watch>(plan.watch) = {step.stuck, 0};
    *shared_at<KnownList>(plan.list) = KnownList();
  }
  if (step.job_count > 0) bring(plan.jobs, step.jobs);
  bring(plan.phases, step.phases);
  if (step.step != nullptr) bring(plan.step, step.step);
  copy_commit();
  copy_wait<0>();
  __syncthreads();
  start_stream(step);
  uint32_t target = step.arrived_before;
  if (step.clocks != nullptr && blockIdx.x == 0 && thread == 0) step.clocks[1] = clock_now();
  for (int i = 0; i < step.phase_count; ++i) {
    const auto place_of = [&](int which) {
      return plan.phases + static_cast<int>(sizeof(Phase)) * (which & 1);
    };
    const Phase& phase = *shared_at<const Phase>(place_of(i));
    if (i + 1 < step.phase_count) bring(place_of(i + 1), step.phases + i + 1);
    // The place of the next job is free once the product before this one is over.
    if (phase.kind == StepKind::kProduct && phase.product + 1 < step.job_count) {
      bring(plan.jobs + static_cast<int>(sizeof(Job)) * ((phase.product + 1) & 1),
            step.jobs + phase.product + 1);
    }
    copy_commit();
    if (thread == 0) shared_at<Watch>(plan.watch)->phase = i;
    run_phase<kTiles>(step, place_of(i));
    copy_wait<0>();
    __syncthreads();
    target += gridDim.x;
    if (thread == 0) {
      const bool timed = step.clocks != nullptr && blockIdx.x == 0;
      if (timed) step.clocks[2 * i + 2] = clock_now();
      if ((step.skipped & kSkipArrival) == 0 || blockIdx.x != 0) grid_arrive(step.arrived);
      if (i + 1 < step.phase_count || timed) grid_await(step.arrived, target);
      if (timed) step.clocks[2 * i + 3] = clock_now();
    }
    __syncthreads();
  }
}

}  // namespace slip::backend::cuda
