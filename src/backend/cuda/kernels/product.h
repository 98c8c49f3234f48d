// Rows times matrices, for 1 to 16 rows: the product phases of a step.
//
// A block of 16 warps stages the rows (stage_turn.h) and takes row tiles of one matrix, or of some that
// follow one another in a list, `16 / parts` at a time (tiles.h). Every warp has a stream of its own that
// brings its weights (stream.h). Weight bytes: each once per pass over the rows; activations: every block
// reads all rows once from the second-level cache. All of this is one function after inlining, on purpose:
// what passes between its parts stays in registers, and there is no room for a stack in the first-level cache
// beside 227 KB of shared memory. A small product takes as long as its instructions one after another, so
// whatever can be known before blocks meet is looked up before.
#pragma once

#include "backend/cuda/kernels/expert_list.h"
#include "backend/cuda/kernels/stage_turn.h"
#include "backend/cuda/kernels/tiles.h"

namespace slip::backend::cuda {

/// The norms of a product to come, to the second-level cache: every block of the segment a few lines, by one
/// of its warps.
__device__ __forceinline__ void prefetch_norms(const Segment& segment) {
  constexpr int kLine = 32;  // floats
  const int lane = thread_here() % 32, own = block_here() - segment.first_block;
  const Mixture& mixture = segment.in.mixture;
  const float* norm = lane % 4 == 0   ? segment.norm
                      : lane % 4 == 1 ? segment.in.branch_norm
                      : lane % 4 == 2 ? mixture.dense_norm
                                      : mixture.expert_norm;
  if (norm == nullptr) return;
  for (int at = (own * 8 + lane / 4) * kLine; at < segment.in.cols; at += segment.blocks * 8 * kLine)
    prefetch(norm + at);
}

/// Phase `now`, a product whose experts a single row chooses, up to where the row is staged and the experts'
/// weights are under way: the row comes while they are chosen, and is staged while the weights come. In way
/// kWay, as stage_in_way().
template <int kWay>
__device__ __forceinline__ void learn_in_way(const Staging& how, int product) {
  const SharedPlan& plan = how.step.plan;
  const OwnJob& job = job_at(plan, product);
  const ChoiceSpace space = choice_space_of(plan, job.frame);
  const bool keeps = block_here() == 0;
  KnownRows<1, false, 1, kWay % 4, Branch::kNone, (kWay & 4) != 0> row{job.segment, how};
  row.load_weights();
  row.aim(0, 0);
  how.meet_others();
  const float score = row_score(job.frame.route);
  row.sum_up(0, 1, 0, keeps);
  show_row(score, job.frame, plan, space);
  __syncthreads();
  choose_for_row(job.frame, plan, space);
  settle_list(plan.arguments, product, job.frame.route.chosen, space);
  row.stage_sum(0, 1, 0, keeps);
}
template <int kFrom = 0, int kTo = staging(Branch::kNone, true, kMostTurns) + 1>
__device__ __forceinline__ void learn_in_ways(const Staging& how, int product) {
  if constexpr (kTo - kFrom > 1) {
    constexpr int kMiddle = (kFrom + kTo) / 2;
    if (Duty::staging(how.kind) < kMiddle) return learn_in_ways<kFrom, kMiddle>(how, product);
    learn_in_ways<kMiddle, kTo>(how, product);
  } else if constexpr (kFrom % 4 != 0) {
    learn_in_way<kFrom>(how, product);
  }
}
/// Not inlined: few products need it.
__device__ __noinline__ inline void learn_and_stage(int arguments, int now, int product, int kind) {
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  const Stage stage = staged_in(job_at(step.plan, product).segment.space, 1);
  learn_in_ways({step, {now}, {0, 1, -1}, stage, kind}, product);
}

/// A turn of product `product` of the step, as phase `now`; its job is in shared memory. Most products are
/// one turn. `again`: it is not the first. If there are more, the warp's place says so (Place::kAgain); else
/// the block has arrived at the meeting behind it.
template <int kTiles>
__device__ __forceinline__ void run_product(const StepArguments& step, int now, int product, bool again) {
  const SharedPlan& plan = step.plan;
  const int kind = uniform(duty_at(plan, product).kind);
  if ((kind & (Duty::kSimple | Duty::kLearns)) != Duty::kSimple) [[unlikely]] {
    if (again) {
      now = -1;
    } else if (kTiles == 1 && (kind & Duty::kStagesAlong) != 0) {
      learn_and_stage(plan.arguments, now, product, kind);
    } else if ((kind & Duty::kLearns) != 0) {
      meet(step, now);
      learn_list(plan.arguments, product);
      now = -1;
    }
    if ((kind & Duty::kSimple) == 0 && uniform(begin_turn(plan.arguments, again) ? 1 : 0) == 0) {
      if (now >= 0) {
        meet(step, now);
      } else {
        __syncthreads();  // the scout may go on when all have seen what he found
      }
      arrive(step);
      return fill_kept(step);
    }
    product = place_here(plan)->product;
  }
  if (kTiles > 1 || (kind & Duty::kStagesAlong) == 0) stage_turn<kTiles>(step, now, product, kind);
  __syncwarp();
  if ((kind & Duty::kSimple) != 0) {
    run_simple<kTiles>(step, kind);
  } else {
    run_batches<kTiles>(plan.arguments, kind);
  }
}

}  // namespace slip::backend::cuda
