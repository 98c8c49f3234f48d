// What a block has to do for a product, turn by turn, and each of its warps.
#pragma once

#include "backend/cuda/kernels/meeting.h"
#include "backend/cuda/kernels/stream.h"

namespace slip::backend::cuda {

/// Not to multiply, so that a benchmark sees what the weights cost; and the ways to do it, as
/// Segment::multiplying.
__host__ __device__ constexpr int passing_on(int subtiles) {
  return -subtiles;
}
__host__ __device__ constexpr int multiplying(Format format, int groups, int subtiles) {
  const int kind = format == Format::kBf16 ? 4 : (format == Format::kAffine8 ? 2 : 0) + groups - 1;
  return 2 * kind + subtiles - 1;
}

/// What the warps of a block take at once: tiles that follow one another times the rows of a pass.
struct TileTurn {
  Run run;
  int first_row, rows;
  int half;   // of the sums, which one comes first, where they are kept twice
  int keeps;  // not 0: the rows are this block's to keep, normed
  int more;   // not 0: something follows

  __device__ __forceinline__ StagedRows staged() const { return {first_row, rows, run.listed}; }
};

/// What a warp has to do for a turn. It is worked out before blocks meet, where all of it is known, and waits
/// in shared memory while rows are staged.
struct alignas(16) TileWalk {
  int segment;  // where in shared memory it is described
  int phase;
  int left;            // of its tiles, those that are still to come
  Pieces pieces;       // of a tile
  int way;             // to multiply
  int rows_log;        // of the step
  int starts, biases;  // of the staged rows
  // Before and after multiplying:
  int stages;                      // that the tiles come in
  int rounds, batch, half_floats;  // of all warps; see Segment
  int sums;
  int rows_apart;
  // Where matrices have rows of their own: the tiles, counted from the first one of the turn's first matrix.
  Tiles own;
  int matrix_tiles, tile_floats;  // of a matrix, and from the sums of a tile to those of the next
  TileTurn turn;
  int unused;
};
__device__ __forceinline__ TileWalk walk_of(const StepArguments& step, const Place& at,
                                            const Segment& segment, int warp, const TileTurn& turn) {
  const Tiles own = own_tiles(warp >> segment.parts_log, slots_log_of(segment), turn.run.count);
  const Pieces pieces = own_pieces(segment, warp);
  const int both = segment.matrix.subtiles == 1 ? 1 : 0;  // two pieces of one subtile are a stage
  const int slots_log = slots_log_of(segment);
  return {
      .segment = segment_place(step.plan, at.product),
      .phase = at.phase,
      .left = own.count,
      .pieces = pieces,
      .way = (step.skipped & kSkipMultiply) == 0 ? segment.multiplying : passing_on(segment.matrix.subtiles),
      .rows_log = segment.rows_log,
      .starts = segment.starts,
      .biases = segment.biases,
      .stages = own.count * ((pieces.end - pieces.begin + both) >> both),
      .rounds = (turn.run.count + (1 << slots_log) - 1) >> slots_log,
      .batch = segment.batch,
      .half_floats = segment.half_floats,
      .sums = segment.sums,
      .rows_apart = segment.rows_apart,
      .own = {turn.run.tile + own.first, own.count},
      .matrix_tiles = segment.matrix.tiles,
      .tile_floats = (kWarps * 16 * segment.matrix.subtiles) << segment.rows_log,
      .turn = turn,
      .unused = 0};
}
__device__ __forceinline__ TileWalk* walk_here(const SharedPlan& plan) {
  return shared_at<TileWalk>(plan.walks) + thread_here() / 32;
}

}  // namespace slip::backend::cuda
