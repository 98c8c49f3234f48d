// The kernel of a step: one block per multiprocessor, all of them there from the first phase to the last.
#pragma once

#include "backend/cuda/kernels/attend_floats.h"
#include "backend/cuda/kernels/attend_phases.h"
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/heads.h"
#include "backend/cuda/kernels/next_draft.h"
#include "backend/cuda/kernels/per_layer.h"
#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/pick.h"
#include "backend/cuda/kernels/product.h"

namespace slip::backend::cuda {

/// Brings something to shared memory, to be there after copy_wait<0>() and a barrier. By a whole warp.
template <typename T>
__device__ __forceinline__ void bring(int place, const T* from) {
  static_assert(sizeof(T) % 16 == 0);
#pragma unroll
  for (int first = 0; first < static_cast<int>(sizeof(T)); first += 512) {
    const int at = first + thread_here() % 32 * 16;
    if (at < static_cast<int>(sizeof(T)))
      copy_async(shared_memory() + place + at, reinterpret_cast<const std::byte*>(from) + at);
  }
}

/// A phase that does nothing before the blocks meet. Not inlined: products, which most phases are, should
/// have the registers and the instruction cache of the step to themselves.
__device__ __noinline__ inline void run_other(StepKind kind, int phase_place, int step_place, int work) {
  const Phase& phase = *shared_at<const Phase>(phase_place);
  const Step& rows = *shared_at<const Step>(step_place);
  switch (kind) {
    case StepKind::kHeads: return finish_heads(reinterpret_cast<const HeadsJob&>(phase.body), rows);
    case StepKind::kAttendFloats: return attend_floats(reinterpret_cast<const AttendJob&>(phase.body), rows);
    case StepKind::kPerLayer: return mix_per_layer(reinterpret_cast<const PerLayerJob&>(phase.body));
    case StepKind::kClusters: return choose_clusters(reinterpret_cast<const ClusterJob&>(phase.body), work);
    case StepKind::kPick: return pick(reinterpret_cast<const PickJob&>(phase.body), rows, work);
    case StepKind::kNextDraft: return next_draft(reinterpret_cast<const NextDraftJob&>(phase.body), work);
    case StepKind::kProduct:
    case StepKind::kAttend:
    case StepKind::kSum:
    case StepKind::kEmpty: return;
  }
}

__device__ __forceinline__ void bring_phase(const StepArguments& step, int which) {
  if (which < step.phase_count) bring(phase_at(step.plan, which), step.phases + which);
}
__device__ __forceinline__ const Duty* own_duty(const StepArguments& step, int product) {
  return step.duties + product * static_cast<int>(gridDim.x) + block_here();
}
__device__ __forceinline__ void bring_duty(const StepArguments& step, int product) {
  if (product < step.job_count)
    bring(step.plan.duties + static_cast<int>(sizeof(Duty)) * (product % kDutiesKept),
          own_duty(step, product));
}
__device__ __forceinline__ void bring_job(const StepArguments& step, int product, const Duty& duty) {
  if (product >= step.job_count) return;
  const int place = step.plan.jobs + static_cast<int>(sizeof(OwnJob)) * (product % kJobsKept);
  const Job& job = step.jobs[product];
  bring<JobFrame>(place, &job);
  bring(place + static_cast<int>(offsetof(OwnJob, segment)), &job.segments[max(duty.segment, 0)]);
  struct alignas(16) Shares {
    WarpShare warp[kWarps];
  };
  bring(place + static_cast<int>(offsetof(OwnJob, shares)),
        reinterpret_cast<const Shares*>(step.shares) + duty.shares);
}

/// Shared memory at the start of a step.
__device__ __forceinline__ void start_step(const StepArguments& step) {
  const SharedPlan& plan = step.plan;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kWarps) {
    Stream& stream = streams(plan)[thread];
    stream = Stream();
    stream.ring = ring_place(plan, thread);
    stream.parity = 1 - plan.parity_flip;
    for (int i = 0; i < plan.slots; ++i) arrival_init(shared_at<Arrival>(stream.ring) + i);
    arrival_init(rows_arrival(plan, thread));
    shared_at<Place>(plan.places)[thread] = Place();
    *shared_at<int>(taken_place(stream.ring)) = 0;
    shared_at<Lookout>(plan.lookouts)[thread] = Lookout();
  }
  if (thread == 0) {
    *shared_at<Watch>(plan.watch) = {step.stuck, 0, 0};
    *shared_at<StepArguments>(plan.arguments) = step;
    *shared_at<int>(plan.list) = -1;
    gathering_init(shared_at<Arrival>(plan.done), kWarps);
  }
  for (int team = 0; team < kTeams; ++team) set_up_barrier(team_barrier(team), kTeamThreads);
  if (thread / 32 == kBringingWarp) {
    for (int i = 0; i < kJobsKept - 1 && i < step.job_count; ++i) bring_job(step, i, *own_duty(step, i));
    for (int i = 0; i < kDutiesKept - 2; ++i) bring_duty(step, i);
    for (int i = 0; i < 2; ++i) bring_phase(step, i);
    if (step.step != nullptr) bring(plan.step, step.step);
    copy_commit();
    copy_wait<0>();
  }
  __syncthreads();
  look_now(plan.arguments, kJobsKept - 2);
}

/// After phase `over`, when this block has arrived: prepares what does not depend on the others, the
/// descriptions after the next ones.
__device__ __forceinline__ void leave_phase(const StepArguments& step, int over) {
  const int warp = uniform(thread_here() / 32);
  static_assert(kMeetingWarp < kScoutWarp && kScoutWarp < kBringingWarp);
  if (warp < kMeetingWarp) return;
  if (warp == kMeetingWarp) check_meeting(step.plan);
  if (warp < kScoutWarp) return;
  const int product = uniform(place_here(step.plan)->product);
  if (warp == kScoutWarp) {
    if (product >= 0) scout(step, product + kJobsKept - 2);
  } else {
    bring_phase(step, over + 2);
    if (product >= 0) {
      const int next = product + kJobsKept - 1;
      bring_job(step, next, duty_at(step.plan, next));
      bring_duty(step, product + kDutiesKept - 2);
      if (product + 2 < step.job_count) prefetch_norms(job_at(step.plan, product + 2).segment);
    }
    copy_commit();
  }
}

/// The step, phase by phase. A phase begins before the one before it is over everywhere: it looks up all it
/// can before it meets the other blocks (meeting.h). Where the step is is read from shared memory after a
/// phase: in registers it would be on the stack meanwhile, which comes back from the second-level cache.
template <int kTiles>
__device__ __forceinline__ void run_step(const StepArguments& step) {
  const SharedPlan& plan = step.plan;
  start_step(step);
  int at = 0;
#pragma unroll 1
  while (true) {
    const int now = at & ~Place::kAgain;
    const PhaseHead head = load_words(shared_at<const PhaseHead>(phase_at(plan, now)));
    constexpr int kWayBit = 8;
    const int told = uniform(static_cast<int>(head.kind) | head.way << kWayBit), way = told >> kWayBit;
    const auto kind = static_cast<StepKind>(told & ((1 << kWayBit) - 1));
    enter_phase(plan, now, head.product);
    if (kind == StepKind::kProduct) {
      run_product<kTiles>(step, now, head.product, (at & Place::kAgain) != 0);
    } else {
      if (kind == StepKind::kAttend) {
        // It begins before the blocks meet, while other warps of this one may be in the phase before. Of a
        // product they do not read the rows in the space to work in any more.
        if ((way & AttendWay::kAfterProduct) == 0) __syncthreads();
        attend({plan.arguments, now}, way);
      } else if (kind == StepKind::kSum) {
        sum_rows(plan.arguments, now);
      } else {
        meet(step, now);
        if (kind != StepKind::kEmpty) run_other(kind, phase_at(plan, now), plan.step, plan.work);
      }
      arrive(step);
    }
    at = uniform(place_here(plan)->phase);
    if ((at & Place::kAgain) != 0) [[unlikely]]
      continue;
    leave_phase(step, at);
    if (++at == step.phase_count) break;
  }
  copy_wait<0>();
  if (step.clocks != nullptr && block_here() == 0) meet(step, at);
}

}  // namespace slip::backend::cuda
