// Rows times matrices, for 1 to 16 rows: the product phases of a step.
//
// A block of 16 warps stages the rows (stage_known.h) and takes row tiles of one matrix, or of some that
// follow one another in a list, `16 / parts` at a time (tiles.h). Every warp has a stream of its own that
// brings its weights (stream.h). Weight bytes: each once per pass over the rows; activations: every block
// reads all rows once from the second-level cache. All of this is one function after inlining, on purpose:
// what passes between its parts stays in registers, and there is no room for a stack in the first-level cache
// beside 227 KB of shared memory. A small product takes as long as its instructions one after another, so
// whatever can be known before blocks meet is looked up before.
#pragma once

#include "backend/cuda/kernels/expert_list.h"
#include "backend/cuda/kernels/stage_known.h"
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

/// The next turn of a block; `at` is behind it afterwards.
__device__ __forceinline__ TileTurn next_turn(const OwnJob& job, const Duty& duty, Place& at) {
  TileTurn turn;
  turn.run = run_from(job.segment, at.tile, at.end);
  turn.first_row = at.pass * job.frame.rows_per_pass;
  turn.rows = min(job.frame.rows_per_pass, job.frame.rows - turn.first_row);
  turn.half = at.half;
  turn.keeps = duty.kind & Duty::kKeeps;
  at.tile += turn.run.count;
  if (at.tile == at.end) {
    at.tile = at.first;
    ++at.pass;
  }
  turn.more = at.pass < job.frame.passes ? 1 : 0;
  return turn;
}

/// Rows of which each matrix of a turn has others, those that chose it, each matrix's at a place of its own
/// (Segment::rows_apart); what lies there of other rows goes nowhere. A warp takes 128 columns of a row at a
/// time, and several of them are under way at once. They have neither branch nor norm. Not inlined: few
/// products need it.
template <int kTiles>
__device__ __noinline__ void stage_choices(const Segment* staged, const int8_t* chosen, TileTurn turn,
                                           Stage stage) {
  constexpr int kAtOnce = 4, kCols = 128;
  const Segment& segment = *staged;
  const PackedMatrix& matrix = segment.matrix;
  const int lane = thread_here() % 32, padded = matrix.padded_cols();
  const int spans = (padded + kCols - 1) / kCols;  // of a row
  const int matrices = quotient(turn.run.tile + turn.run.count - 1, matrix.tiles) + 1;
  const int items = matrices * turn.rows * spans;
#pragma unroll 1
  for (int first = thread_here() / 32; first < items; first += kAtOnce * kWarps) {
    float4 x[kAtOnce];
    int places[kAtOnce], rows[kAtOnce], cols[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = first + i * kWarps, pair = quotient(item, spans), nth = quotient(pair, turn.rows);
      const int n = pair - nth * turn.rows, row = turn.first_row + n;
      int slot = -1;
      if (item < items) slot = chosen[(turn.run.listed + nth) * kMaxRows + row];
      rows[i] = slot < 0 ? -1 : n;
      places[i] = nth * segment.rows_apart;
      cols[i] = (item - pair * spans) * kCols + 4 * lane;
      x[i] = read_four(segment.in.rows + (row * segment.in.slots + slot) * segment.in.stride, cols[i],
                       segment.in.cols, slot >= 0);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (uniform(rows[i]) < 0) continue;
      const Stage to{stage.rows + places[i], stage.starts + places[i], stage.biases + places[i], 0};
      const bool inside = cols[i] < padded;
      GroupSums sums = put_four<kTiles>(to, cols[i], rows[i], x[i], inside);
      if (matrix.groups == 0) continue;
      const int lanes = matrix.groups == 1 ? 16 : 8;  // of a group
#pragma unroll
      for (int mask = 1; mask < 16; mask *= 2) {
        const float high = shuffle_xor(sums.high, mask), low = shuffle_xor(sums.low, mask);
        if (mask < lanes) sums = {sums.high + high, sums.low + low};
      }
      if (inside && (lane & (lanes - 1)) == 0) put_group<kTiles>(to, matrix, cols[i], rows[i], sums);
    }
  }
}

/// The rows of a turn; `now`: the phase, if the other blocks are still to be met, else -1.
template <int kTiles>
__device__ __forceinline__ void stage_turn(const StepArguments& step, int now, const Segment& segment,
                                           const TileTurn& turn) {
  const bool one = turn.rows == 1 && turn.run.tile + turn.run.count <= segment.matrix.tiles;
  if (uniform(segment.rows_apart > 0 && !one ? 1 : 0) == 0) {
    stage_rows<kTiles>(step, {now}, segment, turn.staged());
    return;
  }
  const SharedPlan& plan = step.plan;
  if (now >= 0) meet(step, now);
  if ((step.skipped & kSkipStage) == 0)
    stage_choices<kTiles>(&segment, shared_at<const int8_t>(plan.chosen), turn,
                          {plan.work, segment.starts, segment.biases, 0});
}

/// Product number `product` of the step, as phase `now`; its job is in shared memory. Turn by turn: most
/// products are one. What must be remembered while rows are staged waits in shared memory. Arrives at the
/// meeting behind it.
template <int kTiles>
__device__ __forceinline__ void run_product(const StepArguments& step, int now, int product) {
  const SharedPlan& plan = step.plan;
  if (uniform(duty_at(plan, product).kind & Duty::kLearns) != 0) {
    meet(step, now);
    learn_list(plan.arguments, product);
    now = -1;
  }
  const Duty duty = load_words(&duty_at(plan, product));
  if (uniform(duty.first < duty.end ? 1 : 0) == 0) {
    if (now >= 0) {
      meet(step, now);
    } else {
      __syncthreads();  // the scout may go on when all have seen what he found
    }
    arrive(step, place_here(plan)->phase);
    return fill_kept(step);
  }
  Place at{.phase = place_here(plan)->phase,
           .product = product,
           .first = duty.first,
           .end = duty.end,
           .tile = duty.first};
#pragma unroll 1
  while (true) {
    {
      const OwnJob& job = job_at(plan, at.product);
      const TileTurn turn = next_turn(job, duty_at(plan, at.product), at);
      const TileWalk walk = walk_of(step, at, job.segment, thread_here() / 32, turn);
      __syncwarp();
      if (thread_here() % 32 == 0) {
        store_words(walk_here(plan), walk);
        if (turn.more != 0) keep_progress(plan, at);
      }
      stage_turn<kTiles>(step, now, job.segment, turn);
    }
    __syncwarp();
    run_turn<kTiles>(step);
    __syncwarp();
    if (uniform(walk_here(plan)->turn.more) == 0) return;
    look_now(plan.arguments, place_here(plan)->product);  // the scout has found the first kRunsKept runs
    at = load_words(place_here(plan));
    now = -1;
  }
}

}  // namespace slip::backend::cuda
