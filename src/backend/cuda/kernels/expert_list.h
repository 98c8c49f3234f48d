// The list of matrices of a stack that a product reads, in shared memory. Of experts every block makes it for
// itself from the router's scores: it needs 0.7 us or so for that, and a block that does it for all needs a
// meeting more. Of clusters it is read.
#pragma once

#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/meeting.h"
#include "backend/cuda/kernels/stream.h"

namespace slip::backend::cuda {

/// What the threads of a block tell one another while they choose: where sums will come, since rows may be on
/// their way to the space to work in. Thread by thread they take all experts of the first row, those of the
/// second, and so on, of each as many as fill whole warps.
struct ChoiceSpace {
  static constexpr int kMostGroups = kMostExperts / 32;
  int groups = 0;  // of 32 experts
  int items = 0;   // of all rows
  int ranks = 0;   // [row][expert] words: of the scores
  int votes = 0;   // [row][kMostGroups] words: a bit for every expert that the row chose
  int order = 0;   // [row][kMaxChosen] ints: the row's experts, the best first
  int slots = 0;   // [row][expert] bytes: of the row's choices, which one it is, or -1
  int end = 0;
};
__host__ __device__ constexpr ChoiceSpace choice_space(int place, int rows, int experts) {
  ChoiceSpace space;
  space.groups = (experts + 31) / 32;
  space.items = rows * space.groups * 32;
  space.ranks = place;
  space.votes = space.ranks + space.items * 4;
  space.order = space.votes + rows * ChoiceSpace::kMostGroups * 4;
  space.slots = space.order + rows * kMaxChosen * 4;
  space.end = space.slots + space.items;
  return space;
}

/// The block that leaves the shares of the rows' choices.
__device__ __forceinline__ bool leaves_shares() {
  return block_here() == static_cast<int>(gridDim.x) - 1;
}

/// A list of as many experts as a row has: where scores are no numbers nobody chooses them.
__device__ __forceinline__ void clear_list(const JobFrame& job, const SharedPlan& plan) {
  const int thread = thread_here();
  if (thread >= job.route.chosen) return;
  constexpr uint32_t kNone = 0xffffffffu;
  shared_at<int>(plan.active)[thread] = 0;
  shared_at<uint4>(plan.chosen)[thread] = make_uint4(kNone, kNone, kNone, kNone);
}

/// A single row's scores, an expert a thread: read, and shown to the other threads.
__device__ __forceinline__ float row_score(const RouteJob& route) {
  return thread_here() < route.experts ? load_fresh(route.scores + thread_here()) : -INFINITY;
}
__device__ __forceinline__ void show_row(float score, const JobFrame& job, const SharedPlan& plan,
                                         const ChoiceSpace& space) {
  static_assert(kMostExperts <= kBlockThreads);
  if (thread_here() < space.items) shared_at<uint32_t>(space.ranks)[thread_here()] = rank_of(score);
  if (thread_here() < kMaxChosen) shared_at<int>(space.order)[thread_here()] = kMostExperts;
  clear_list(job, plan);
}
/// Each expert's place in the list is how many are better.
__device__ __forceinline__ void choose_for_row(const JobFrame& job, const SharedPlan& plan,
                                               const ChoiceSpace& space) {
  const auto* ranks = shared_at<const uint32_t>(space.ranks);
#pragma unroll 1
  for (int expert = thread_here() / kRankSharers; expert < space.items;
       expert += kBlockThreads / kRankSharers) {
    const int better = better_ones(ranks, space.items, expert);
    if (thread_here() % kRankSharers != 0 || ranks[expert] == 0 || better >= job.route.chosen) continue;
    if (leaves_shares()) shared_at<int>(space.order)[better] = expert;
    shared_at<int>(plan.active)[better] = expert;
    shared_at<int8_t>(plan.chosen)[better * kMaxRows] = static_cast<int8_t>(better);
  }
}

/// The experts of several rows, each row's by a warp: which they are, and as which of the row's choices.
__device__ __forceinline__ void choose_for_rows(const JobFrame& job, const ChoiceSpace& space) {
  static_assert(kMaxRows <= kWarps);
  const RouteJob& route = job.route;
  const int row = uniform(thread_here() / 32), lane = thread_here() % 32, items = space.groups * 32;
  if (row >= job.rows) return;
  const ExpertChoices choices =
      choose_experts(route.scores + row * route.stride, route.experts, route.chosen);
  auto* slots = shared_at<int8_t>(space.slots) + row * items;
  for (int i = lane; i < items / 4; i += 32) reinterpret_cast<uint32_t*>(slots)[i] = 0xffffffffu;
  __syncwarp();
  uint32_t votes[ChoiceSpace::kMostGroups] = {};
#pragma unroll
  for (int i = 0; i < ExpertChoices::kKept; ++i) {
    const int slot = lane + 32 * i, expert = slot < route.chosen ? choices.expert[i] : kMostExperts;
    if (leaves_shares()) shared_at<int>(space.order)[row * kMaxChosen + slot] = expert;
    if (expert == kMostExperts) continue;
    slots[expert] = static_cast<int8_t>(slot);
    if (leaves_shares()) shared_at<uint32_t>(space.ranks)[row * items + expert] = rank_of(choices.score[i]);
#pragma unroll
    for (int g = 0; g < ChoiceSpace::kMostGroups; ++g) votes[g] |= expert / 32 == g ? 1u << expert % 32 : 0;
  }
#pragma unroll
  for (int g = 0; g < ChoiceSpace::kMostGroups; ++g) {
    if (g >= space.groups) break;
    const uint32_t all = warp_or(votes[g]);
    if (lane == 0) shared_at<uint32_t>(space.votes)[row * ChoiceSpace::kMostGroups + g] = all;
  }
}

/// The list of the experts that some row chose, in ascending order; how long it is.
__device__ __forceinline__ int list_choices(const JobFrame& job, const SharedPlan& plan,
                                            const ChoiceSpace& space) {
  constexpr int kGroups = ChoiceSpace::kMostGroups;
  uint32_t any[kGroups] = {};
#pragma unroll 1
  for (int row = 0; row < job.rows; ++row) {
#pragma unroll
    for (int g = 0; g < kGroups; g += 4) {
      if (g >= space.groups) break;
      const uint4 four = *shared_at<const uint4>(space.votes + (row * kGroups + g) * 4);
      any[g] |= four.x;
      any[g + 1] |= four.y;
      any[g + 2] |= four.z;
      any[g + 3] |= four.w;
    }
  }
  int count = 0;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    if (g < space.groups) count += bit_count(any[g]);
  }
  const int lane = thread_here() % 32;
#pragma unroll 1
  for (int item = thread_here(); item < space.items; item += kBlockThreads) {
    const int row = quotient(item / 32, space.groups), group = item / 32 - row * space.groups;
    uint32_t own = 0;
    int at = 0;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (g < group) at += bit_count(any[g]);
      if (g == group) own = any[g];
    }
    if ((own >> lane & 1) == 0) continue;
    at += bit_count(own & ((1u << lane) - 1));
    shared_at<int8_t>(plan.chosen)[at * kMaxRows + row] = shared_at<const int8_t>(space.slots)[item];
    if (row == 0) shared_at<int>(plan.active)[at] = group * 32 + lane;
  }
  return count;
}

/// The shares of row n's choices, by warp n, when all have chosen. Other warps go on as soon as what they
/// chose has been read.
__device__ __forceinline__ void leave_all_shares(const JobFrame& job, const ChoiceSpace& space) {
  const RouteJob& route = job.route;
  const int row = thread_here() / 32, lane = thread_here() % 32;
  const bool has_row = uniform(row) < job.rows;
  ExpertChoices choices = {};
#pragma unroll
  for (int i = 0; i < ExpertChoices::kKept; ++i) {
    const int slot = lane + 32 * i;
    if (!has_row || slot >= route.chosen) continue;
    choices.expert[i] = shared_at<const int>(space.order)[row * kMaxChosen + slot];
    choices.score[i] = choices.expert[i] == kMostExperts
                           ? -INFINITY
                           : value_of_rank(shared_at<const uint32_t>(
                                 space.ranks)[row * space.groups * 32 + choices.expert[i]]);
  }
  __syncthreads();
  if (has_row)
    leave_shares(choices, route.experts, route.chosen, route.expert_scale, route.shares + row * kMaxChosen);
}

/// The list of a step's experts, after a barrier, and how long it is: no less than one row chooses, because
/// the tiles of so many are dealt out before they are chosen.
__device__ __forceinline__ int choose_list(const JobFrame& job, const SharedPlan& plan,
                                           const ChoiceSpace& space) {
  if (uniform(job.rows) == 1) {
    show_row(row_score(job.route), job, plan, space);
    __syncthreads();
    choose_for_row(job, plan, space);
    return job.route.chosen;
  }
  clear_list(job, plan);
  choose_for_rows(job, space);
  __syncthreads();
  return max(job.route.chosen, list_choices(job, plan, space));
}

/// A list as another phase left it, and how long it is. Most of it is under way before that is known.
__device__ __forceinline__ int read_list(const JobFrame& job, const SharedPlan& plan) {
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
  return matrices;
}

/// How long the list is decides what this block has of the products that read it, of which there are few: a
/// lane for each.
__device__ __forceinline__ void settle_shares(const StepArguments& step, int product, int matrices) {
  const SharedPlan& plan = step.plan;
  const int which = product + thread_here() - kScoutWarp * 32;
  if (which < product || which >= min(product + kListReaders, step.job_count)) return;
  Duty& duty = shared_at<Duty>(plan.duties)[static_cast<unsigned>(which) % kDutiesKept];
  const OwnJob& job = job_at(plan, which);
  if (duty.known() || job.frame.list_number != job_at(plan, product).frame.list_number) return;
  const Segment& segment = job.segment;
  const Share share =
      stack_share(segment.matrix.tiles, matrices, block_here() - segment.first_block, segment.blocks);
  duty.first = share.first;
  duty.end = share.end;
  duty.kind |= Duty::kKnown;
}

__device__ __forceinline__ ChoiceSpace choice_space_of(const SharedPlan& plan, const JobFrame& job) {
  return choice_space(plan.sums, job.rows, job.route.experts);
}

/// The list of so many matrices has been made: it is known to all, and its weights are under way.
__device__ __forceinline__ void settle_list(int arguments, int product, int matrices,
                                            const ChoiceSpace& space) {
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  const JobFrame& job = job_at(step.plan, product).frame;
  const bool experts = uniform(job.route.experts) > 0;
  settle_shares(step, product, matrices);
  if (thread_here() == 0) *shared_at<int>(step.plan.list) = job.list_number;
  __syncthreads();
  // What a block has of one row's experts was known before: only the list was missing.
  if (experts && uniform(job.rows) == 1) {
    fill_now(step);
  } else {
    look_now(arguments, product);  // the scout will look further when nobody waits
  }
  if (experts && leaves_shares()) leave_all_shares(job, space);
}

/// The list that product `product` needs, by all threads, and its weights under way. `arguments`: where
/// StepArguments are. Not inlined: few products need it.
__device__ __noinline__ inline void learn_list(int arguments, int product) {
  const SharedPlan& plan = shared_at<const StepArguments>(arguments)->plan;
  const JobFrame& job = job_at(plan, product).frame;
  const ChoiceSpace space = choice_space_of(plan, job);
  const bool experts = uniform(job.route.experts) > 0;
  settle_list(arguments, product, experts ? choose_list(job, plan, space) : read_list(job, plan), space);
}

}  // namespace slip::backend::cuda
