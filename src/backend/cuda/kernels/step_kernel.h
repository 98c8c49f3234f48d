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
__device__ __forceinline__ void run_phase(const StepArguments& step, StepKind kind, int product,
                                          int phase_place) {
  const Phase& phase = *shared_at<const Phase>(phase_place);
  const int work = step.plan.work;
  const Step& rows = *shared_at<const Step>(step.plan.step);
  switch (kind) {
    case StepKind::kProduct: return run_product<kTiles>(step, product);
    case StepKind::kHeads: return finish_heads(reinterpret_cast<const HeadsJob&>(phase.body), rows);
    case StepKind::kAttend:
      return attend(phase_place + static_cast<int>(sizeof(PhaseHead)), step.plan.step, work);
    case StepKind::kAttendFloats: return attend_floats(reinterpret_cast<const AttendJob&>(phase.body), rows);
    case StepKind::kCombine: return combine(reinterpret_cast<const CombineJob&>(phase.body), work);
    case StepKind::kPerLayer: return mix_per_layer(reinterpret_cast<const PerLayerJob&>(phase.body));
    case StepKind::kClusters: return choose_clusters(reinterpret_cast<const ClusterJob&>(phase.body), work);
    case StepKind::kPick: return pick(reinterpret_cast<const PickJob&>(phase.body), rows, work);
    case StepKind::kEmpty: return;
  }
}

__device__ __forceinline__ int phase_at(const SharedPlan& plan, int which) {
  return plan.phases + static_cast<int>(sizeof(Phase)) * (which & 1);
}
__device__ __forceinline__ void bring_phase(const StepArguments& step, int which) {
  if (which < step.phase_count) bring(phase_at(step.plan, which), step.phases + which);
}
__device__ __forceinline__ void bring_job(const StepArguments& step, int product) {
  if (product < step.job_count)
    bring(step.plan.jobs + static_cast<int>(sizeof(Job)) * (product % kJobsKept), step.jobs + product);
}

/// Shared memory at the start of a step; the first products' weights do not wait for their phases.
__device__ __forceinline__ void start_step(const StepArguments& step) {
  const SharedPlan& plan = step.plan;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kWarps * plan.slots; i += kBlockThreads)
    arrival_init(shared_at<Arrival>(plan.arrivals) + i);
  if (thread < kWarps) {
    Stream stream;
    stream.first_slot = thread * plan.slots;
    shared_at<Stream>(plan.streams)[thread] = stream;
    shared_at<StreamAhead>(plan.ahead)[thread] = StreamAhead();
  }
  if (thread == 0) {
    *shared_at<Watch>(plan.watch) = {step.stuck, 0};
    *shared_at<KnownList>(plan.list) = KnownList();
  }
  for (int i = 0; i < kJobsKept; ++i) bring_job(step, i);
  for (int i = 0; i < 2; ++i) bring_phase(step, i);
  if (step.step != nullptr) bring(plan.step, step.step);
  copy_commit();
  copy_wait<0>();
  __syncthreads();
  prepare_products(step, -1);
  __syncthreads();
}

__device__ __forceinline__ PhaseHead phase_head(const SharedPlan& plan, int which) {
  return load_words(shared_at<const PhaseHead>(phase_at(plan, which)));
}

/// The step, phase by phase. Once a block has arrived at a meeting it prepares what does not depend on the
/// others: the descriptions after the next ones, and the streams of weights. Only the number of the phase is
/// kept through one, which needs the registers.
template <int kTiles>
__device__ __forceinline__ void run_step(const StepArguments& step) {
  start_step(step);
  if (step.clocks != nullptr && blockIdx.x == 0 && thread_here() == 0) step.clocks[1] = clock_now();
  PhaseHead next = phase_head(step.plan, 0);
#pragma unroll 1
  for (int i = 0; i < step.phase_count; ++i) {
    if (thread_here() == 0) shared_at<Watch>(step.plan.watch)->phase = i;
    run_phase<kTiles>(step, next.kind, next.product, phase_at(step.plan, i));
    const PhaseHead over = phase_head(step.plan, i);
    copy_wait<0>();
    __syncthreads();
    const int thread = thread_here();
    const bool timed = step.clocks != nullptr && blockIdx.x == 0 && thread == 0;
    if (timed) step.clocks[2 * i + 2] = clock_now();
    if (thread == 0 && ((step.skipped & kSkipArrival) == 0 || blockIdx.x != 0)) grid_arrive(step.arrived);
    next = phase_head(step.plan, i + 1);
    const bool product = over.kind == StepKind::kProduct;
    bring_phase(step, i + 2);
    if (product) bring_job(step, over.product + kJobsKept);
    copy_commit();
    if (product) prepare_products(step, over.product);
    const uint32_t target = step.arrived_before + static_cast<uint32_t>(i + 1) * gridDim.x;
    if (thread == 0 && (i + 1 < step.phase_count || timed)) grid_await(step.arrived, target);
    if (timed) step.clocks[2 * i + 3] = clock_now();
    __syncthreads();
  }
}

}  // namespace slip::backend::cuda
