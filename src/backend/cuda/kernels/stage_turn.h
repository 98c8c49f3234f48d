// Staging of the rows of a turn: those of all matrices at once, or, where each matrix has rows of its own
// (the down of experts), one matrix after another.
#pragma once

#include "backend/cuda/kernels/stage_known.h"
#include "backend/cuda/kernels/turn.h"

namespace slip::backend::cuda {

/// Four columns of a row, of which a warp has a stretch, as operands, and what they add to sums of groups. As
/// pairs: nobody chooses among matrices that want halves.
template <int kTiles>
__device__ __forceinline__ void put_columns(const Stage& to, const PackedMatrix& matrix, int col, int row,
                                            const float4& x) {
  const bool inside = col < matrix.padded_cols();
  put_four<kTiles>(to, col, row, staged_four(x, staged_scale(matrix.groups)), inside);
  if (matrix.groups == 0) return;
  const int lanes = group_lanes(matrix.groups);
  const float sum = group_sum(sum_of(x), lanes);
  if (inside && (thread_here() & (lanes - 1)) == 0) put_group(to, matrix, kTiles, 4, col, row, sum);
}

/// Rows of which each matrix of a turn has others, those that chose it, each matrix's at a place of its own
/// (Segment::rows_apart); what lies there of other rows goes nowhere. A warp has several stretches of columns
/// under way at once. They have neither branch nor norm. Not inlined: few products need it.
template <int kTiles>
__device__ __noinline__ void stage_choices(const Segment* staged, const int8_t* chosen, TileTurn turn,
                                           Stage stage) {
  constexpr int kAtOnce = 4;
  const Segment& segment = *staged;
  const PackedMatrix& matrix = segment.matrix;
  const int lane = thread_here() % 32;
  const int stretches = (matrix.padded_cols() + kStretchCols - 1) / kStretchCols;  // of a row
  const int matrices = quotient(turn.run.tile + turn.run.count - 1, matrix.tiles) + 1;
  const int items = matrices * turn.rows * stretches;
#pragma unroll 1
  for (int first = thread_here() / 32; first < items; first += kAtOnce * kWarps) {
    float4 x[kAtOnce];
    int places[kAtOnce], rows[kAtOnce], cols[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = first + i * kWarps, pair = quotient(item, stretches), nth = quotient(pair, turn.rows);
      const int n = pair - nth * turn.rows, row = turn.first_row + n;
      int slot = -1;
      if (item < items) slot = chosen[(turn.run.listed + nth) * kMaxRows + row];
      rows[i] = slot < 0 ? -1 : n;
      places[i] = nth * segment.space.rows_apart;
      cols[i] = (item - pair * stretches) * kStretchCols + 4 * lane;
      x[i] = read_four(segment.in.rows + (row * segment.in.slots + slot) * segment.in.stride, cols[i],
                       segment.in.cols, slot >= 0);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (uniform(rows[i]) < 0) continue;
      const Stage to{stage.rows + places[i], stage.biases + places[i], 0};
      put_columns<kTiles>(to, matrix, cols[i], rows[i], x[i]);
    }
  }
}

/// The rows of the turn at hand, of product `product`; `now`: the phase, if the other blocks are still to be
/// met, else -1. All threads of the block; the rows are there after the next barrier of the block.
template <int kTiles>
__device__ __forceinline__ void stage_turn(const StepArguments& step, int now, int product, int kind) {
  const SharedPlan& plan = step.plan;
  const Segment& segment = job_at(plan, product).segment;
  const Space& space = segment.space;
  const Stage stage = staged_in(space, column_tiles(like((kind & Duty::kHalves) != 0), kTiles));
  if constexpr (kTiles == 1) {
    if ((kind & Duty::kOneRow) != 0) [[likely]] {
      const Staging how{step, {now}, {0, 1, turn_here(plan, product, kind).run.listed}, stage, kind};
      if ((kind & Duty::kHalves) != 0) {
        stage_in_way<1, true, true>(how, segment);
      } else {
        stage_in_way<1, false, true>(how, segment);
      }
      return;
    }
  }
  const TileTurn& turn = turn_here(plan, product, kind);
  const bool apart =
      space.rows_apart > 0 && (turn.rows > 1 || turn.run.tile + turn.run.count > segment.matrix.tiles);
  if ((kind & Duty::kNotStaged) != 0) {
    Meeting{now}.hold(step);
  } else if (uniform(apart ? 1 : 0) == 0) {
    const StagedRows rows{turn.first_row, turn.rows, turn.run.listed};
    if ((kind & Duty::kHalves) != 0) {
      stage_any<kTiles, true>(&segment, plan.arguments, {now}, rows, kind);
    } else {
      stage_any<kTiles, false>(&segment, plan.arguments, {now}, rows, kind);
    }
  } else {
    Meeting{now}.hold(step);
    stage_choices<kTiles>(&segment, shared_at<const int8_t>(plan.chosen), turn, stage);
  }
}

}  // namespace slip::backend::cuda
