// The list of matrices of a stack that a product reads, in shared memory. Of experts every block makes it for
// itself from the router's scores: it needs 0.7 us or so for that, and a block that does it for all needs a
// meeting more. Of clusters it is read.
#pragma once

#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/meeting.h"
#include "backend/cuda/kernels/stream.h"

namespace slip::backend::cuda {

/// By every warp: what has become known is put under way.
__device__ __forceinline__ void fill_now(const StepArguments& step) {
  Stream stream = load_stream(step.plan);
  fill(step, stream);
  keep_stream(step.plan, stream);
  __syncwarp();
}
/// By all threads, when all streams are in shared memory: what can be known is put under way at once.
__device__ __forceinline__ void look_now(const StepArguments& step, int last) {
  if (uniform(thread_here() / 32) == kScoutWarp) scout(step, last);
  __syncthreads();
  fill_now(step);
}

/// To whole warps.
__device__ __forceinline__ int rounded_up(int threads) {
  return (threads + 31) & ~31;
}

/// The experts of a single row, in the order of their scores: each one's rank is how many are better, which
/// as many threads find out at once, after a barrier. First the scores, to the space of the votes, which
/// nobody needs for one row.
__device__ __forceinline__ void show_scores(const JobFrame& job, const SharedPlan& plan) {
  const RouteJob& route = job.route;
  const int expert = thread_here();
  if (expert >= rounded_up(route.experts)) return;
  shared_at<uint32_t>(plan.votes)[expert] =
      expert < route.experts ? rank_of(load_fresh(route.scores + expert)) : 0;
  if (expert < route.chosen) {  // where scores are no numbers there is no choice
    shared_at<int>(plan.active)[expert] = 0;
    shared_at<int8_t>(plan.chosen)[expert * kMaxRows] = -1;
  }
}
__device__ __forceinline__ void choose_at_once(const JobFrame& job, const SharedPlan& plan) {
  const RouteJob& route = job.route;
  const int expert = thread_here(), padded = rounded_up(route.experts);
  if (expert >= padded) return;
  const auto* ranks = shared_at<const uint32_t>(plan.votes);
  const uint32_t own = ranks[expert];
  // Of equal ones the lower is better: of the experts before this warp's all that are not worse, of its own
  // those before this one.
  int better = 0;
#pragma unroll 1
  for (int first = 0; first < padded; first += 32) {
    const bool among = first == expert / 32 * 32;
    const uint32_t least = first < expert / 32 * 32 ? own - 1 : own;
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(ranks + first + i);
      if (among) {
        const int lane = expert % 32;
        better += (four.x > (i < lane ? own - 1 : own) ? 1 : 0) +
                  (four.y > (i + 1 < lane ? own - 1 : own) ? 1 : 0) +
                  (four.z > (i + 2 < lane ? own - 1 : own) ? 1 : 0) +
                  (four.w > (i + 3 < lane ? own - 1 : own) ? 1 : 0);
      } else {
        better += (four.x > least ? 1 : 0) + (four.y > least ? 1 : 0) + (four.z > least ? 1 : 0) +
                  (four.w > least ? 1 : 0);
      }
    }
  }
  if (own == 0 || better >= route.chosen) return;
  shared_at<int>(plan.active)[better] = expert;
  shared_at<int8_t>(plan.chosen)[better * kMaxRows] = static_cast<int8_t>(better);
}

/// What rows chose: warp n says for row n, in `votes`, which of its choices an expert is; of a single row
/// that is known. One block leaves the shares.
__device__ __forceinline__ void vote(const JobFrame& job, const SharedPlan& plan) {
  const RouteJob& route = job.route;
  const int row = thread_here() / 32, lane = thread_here() % 32;
  if (uniform(row) >= job.rows) return;
  const bool shares = block_here() == static_cast<int>(gridDim.x) - 1;
  if (job.rows == 1 && !shares) return;
  const ExpertChoices choices =
      choose_experts(route.scores + row * route.stride, route.experts, route.chosen);
#pragma unroll
  for (int i = 0; i < ExpertChoices::kKept; ++i) {
    const int slot = lane + 32 * i;
    if (job.rows > 1 && slot < route.chosen && choices.expert[i] < route.experts)
      shared_at<int8_t>(plan.votes)[choices.expert[i] * kMaxRows + row] = static_cast<int8_t>(slot);
  }
  if (shares)
    leave_shares(choices, route.experts, route.chosen, route.expert_scale, route.shares + row * kMaxChosen);
}

/// The experts that were chosen, in ascending order, by one warp. The votes are as before afterwards.
__device__ __forceinline__ int count_votes(const JobFrame& job, const SharedPlan& plan) {
  const int lane = thread_here() % 32;
  constexpr uint32_t kNone = 0xffffffffu;
  int count = 0;
#pragma unroll 4
  for (int first = 0; first < job.route.experts; first += 32) {
    const int expert = first + lane;
    uint4* votes = shared_at<uint4>(plan.votes) + expert;
    uint4 slots = make_uint4(kNone, kNone, kNone, kNone);
    if (expert < job.route.experts) slots = *votes;
    const bool chosen = (slots.x & slots.y & slots.z & slots.w) != kNone;
    const uint32_t all = ballot(chosen);
    const int at = count + bit_count(all & ((1u << lane) - 1));
    if (chosen) {
      shared_at<int>(plan.active)[at] = expert;
      shared_at<uint4>(plan.chosen)[at] = slots;
      *votes = make_uint4(kNone, kNone, kNone, kNone);
    }
    count += bit_count(all);
  }
  return count;
}

/// At the start of a step: nobody has chosen anything.
__device__ __forceinline__ void clear_votes(const SharedPlan& plan) {
  for (int i = thread_here(); i < plan.experts * kMaxRows / 4; i += kBlockThreads)
    shared_at<uint32_t>(plan.votes)[i] = 0xffffffffu;
}

/// A list as another phase left it. Most of it is under way before it is known how long it is.
__device__ __forceinline__ void read_list(const JobFrame& job, const SharedPlan& plan) {
  const MatrixList& list = *job.list;
  auto* active = shared_at<int>(plan.active);
  auto* chosen = shared_at<int8_t>(plan.chosen);
  const int thread = thread_here();
  const int matrix = load_fresh(&list.matrix[thread]);
  static_assert(kMaxListed >= kBlockThreads);
  const int slot = load_fresh(&list.slot[0][0] + thread);
  const int matrices = load_fresh(&list.count);
  if (thread < matrices) active[thread] = matrix;
  if (thread < matrices * kMaxRows) chosen[thread] = static_cast<int8_t>(slot);
#pragma unroll 1
  for (int i = thread + kBlockThreads; i < matrices * kMaxRows; i += kBlockThreads)
    chosen[i] = static_cast<int8_t>(load_fresh(&list.slot[0][0] + i));
  if (thread == 0) *shared_at<KnownList>(plan.list) = {job.list_number, matrices};
}

/// The list that product `product` needs, by all threads, and its weights under way. `arguments`: where
/// StepArguments are. Not inlined: few products need it.
__device__ __noinline__ inline void learn_list(int arguments, int product) {
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  const SharedPlan& plan = step.plan;
  const JobFrame& job = job_at(plan, product).frame;
  const bool experts = uniform(job.route.experts) > 0, single = uniform(job.rows) == 1;
  if (experts && single) {
    show_scores(job, plan);
    __syncthreads();
    choose_at_once(job, plan);
    if (thread_here() == 0) *shared_at<KnownList>(plan.list) = {job.list_number, job.route.chosen};
  }
  if (experts) {
    vote(job, plan);
  } else {
    read_list(job, plan);
  }
  __syncthreads();
  // What a plain product reads of the list has been looked up before: only the list was missing.
  if (uniform(duty_at(plan, product).kind & Duty::kPlain) != 0) return fill_now(step);
  if (experts && !single && uniform(thread_here() / 32) == kScoutWarp) {
    const int matrices = count_votes(job, plan);
    if (thread_here() % 32 == 0) *shared_at<KnownList>(plan.list) = {job.list_number, matrices};
    __syncwarp();
  }
  look_now(step, product);  // the scout will look further when nobody waits
}

}  // namespace slip::backend::cuda
