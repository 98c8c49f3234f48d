// Row tiles of a matrix times staged rows, by the 16 warps of a block. The warps of a tile share its columns
// (packed_matrix.h); the sums of several tiles are left in shared memory before the block meets, adds those
// of the warps and writes the results (results.h).
#pragma once

#include "backend/cuda/kernels/piece.h"
#include "backend/cuda/kernels/results.h"

namespace slip::backend::cuda {

/// Sums are kept of this many rounds of tiles, of all rows of a step of `tiles` column tiles; of more where
/// there are fewer rows.
__host__ __device__ constexpr int rounds_kept(int tiles) {
  return tiles == 1 ? 2 : 1;
}

/// A warp's sums of a tile to shared memory, low parts added to high ones. A round of tiles is
/// [subtile][warp][row of the step][16 rows of the matrix]; rows of the step are padded to a power of two.
template <int kSubtiles, int kTiles>
__device__ __forceinline__ void leave_sums(float* round_sums, int rows_log,
                                           float (&mine)[kSubtiles][kTiles][4]) {
  const int thread = thread_here(), lane = thread % 32, t = lane % 4;
  float* to = round_sums + ((thread / 32 * 16) << rows_log) + t * 32 + lane / 4;
  const int rows = 1 << rows_log;
#pragma unroll
  for (int s = 0; s < kSubtiles; ++s) {
#pragma unroll
    for (int column = 0; column < kTiles; ++column) {
      float(&sum)[4] = mine[s][column];
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] += shuffle_xor(sum[j], 2);
      float* at = to + ((s * kWarps * 16) << rows_log) + column * 64;
      const int n = column * 4 + 2 * t;
      if (t < 2 && n < rows) {
        at[0] = sum[0];
        at[8] = sum[2];
        if (n + 1 < rows) {
          at[16] = sum[1];
          at[24] = sum[3];
        }
      }
    }
  }
}

/// The weights of `tiles` tiles come and are not used.
__device__ __forceinline__ void pass_stages(const SharedPlan& plan, const TileWalk& walk, int tiles,
                                            bool last, Stream& stream) {
  const int both = walk.way == passing_on(1) ? 1 : 0;
  const int stages = tiles * ((walk.pieces.end - walk.pieces.begin + both) >> both);
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) {
    stream.next(plan);
    stream.pass_on(plan, !last || stage + 1 < stages);
  }
}

/// The next `tiles` of a warp times the staged rows, `further` bytes behind the first ones; their sums are
/// left in shared memory. `last`: nothing follows, others wait for this warp's sums, and what comes after
/// this product is looked up later. `awaits`: the rows are there after a barrier. A stage is two pieces of
/// one subtile or one of two; it is taken into registers as a whole where there are enough, so that the next
/// one can come while it is multiplied.
template <Format kFormat, int kGroups, int kSubtiles, int kTiles>
__device__ __forceinline__ void multiply_tiles(const StepArguments& step, const TileWalk& walk, int further,
                                               int tiles, bool last, bool awaits, Stream& stream,
                                               float* sums) {
  using Work = Piece<kFormat, kGroups, kSubtiles, kTiles>;
  constexpr int kStagePieces = kSubtiles == 1 ? 2 : 1;
  const SharedPlan& plan = step.plan;
  const int lane = thread_here() % 32, rows_log = walk.rows_log;
  // Columns that no row has repeat the first one's, which costs no more to read.
  const int column = (lane / 4 % 4) < 1 << rows_log ? lane : lane & ~12;
  const RowPlaces rows{plan.work + further + column * 16, walk.starts + further + lane % 4 * 16,
                       walk.biases + further + lane * 4};
  if (awaits) {
    if (tiles > 0) stream.next(plan);  // the weights as well, while others have rows to stage
    __syncthreads();
  }
#pragma unroll 1
  for (; tiles > 0; --tiles) {
    float mine[kSubtiles][kTiles][4] = {};
    int piece = walk.pieces.begin;
#pragma unroll 1
    for (; piece < walk.pieces.end; piece += kStagePieces) {
      const int place = stream.next(plan);
      const bool goes_on = !last || tiles > 1 || piece + kStagePieces < walk.pieces.end;
      const bool both = kStagePieces == 2 && piece + 1 < walk.pieces.end;
      typename Work::Words words[kStagePieces];
      Work::load(lane, place, words[0]);
      if constexpr (kTiles == 1) {
        if constexpr (kStagePieces == 2) Work::load(lane, place + Work::kBytes, words[1]);
        stream.pass_on(plan, goes_on);
        if (kStagePieces == 2 && !both) {  // the last one of the tile
          Work::template multiply<1>(lane, rows, piece, {words[0]}, mine);
          break;
        }
        Work::multiply(lane, rows, piece, words, mine);
      } else {  // registers are short
        Work::template multiply<1>(lane, rows, piece, {words[0]}, mine);
        if (both) {
          Work::load(lane, place + Work::kBytes, words[0]);
          Work::template multiply<1>(lane, rows, piece + 1, {words[0]}, mine);
        }
        stream.pass_on(plan, goes_on);
      }
    }
    leave_sums<kSubtiles, kTiles>(sums, rows_log, mine);
    sums += (kWarps * 16 * kSubtiles) << rows_log;
  }
}

/// The same for whatever format the matrix has.
template <int kTiles>
__device__ __forceinline__ void multiply_any(const StepArguments& step, const TileWalk& walk, int further,
                                             int tiles, bool last, bool awaits, Stream& stream, float* sums) {
  const auto with = [&]<Format kFormat, int kGroups, int kSubtiles>() {
    multiply_tiles<kFormat, kGroups, kSubtiles, kTiles>(step, walk, further, tiles, last, awaits, stream,
                                                        sums);
  };
  const int way = uniform(walk.way);
  // The most frequent ones without the detour of a jump table.
  if (way == multiplying(Format::kAffine4, 1, 1)) return with.template operator()<Format::kAffine4, 1, 1>();
  if (way == multiplying(Format::kAffine4, 1, 2)) return with.template operator()<Format::kAffine4, 1, 2>();
  if (way < 0) {
    if (awaits) __syncthreads();
    return pass_stages(step.plan, walk, tiles, last, stream);
  }
  switch (way) {
    case multiplying(Format::kAffine4, 2, 1): return with.template operator()<Format::kAffine4, 2, 1>();
    case multiplying(Format::kAffine4, 2, 2): return with.template operator()<Format::kAffine4, 2, 2>();
    case multiplying(Format::kAffine8, 1, 1): return with.template operator()<Format::kAffine8, 1, 1>();
    case multiplying(Format::kAffine8, 1, 2): return with.template operator()<Format::kAffine8, 1, 2>();
    case multiplying(Format::kAffine8, 2, 1): return with.template operator()<Format::kAffine8, 2, 1>();
    case multiplying(Format::kAffine8, 2, 2): return with.template operator()<Format::kAffine8, 2, 2>();
    case multiplying(Format::kBf16, 0, 1): return with.template operator()<Format::kBf16, 0, 1>();
    default: return with.template operator()<Format::kBf16, 0, 2>();
  }
}

/// The next `tiles` tiles of a warp, of a turn whose matrices may have rows of their own.
template <int kTiles>
__device__ __forceinline__ void multiply_round(const StepArguments& step, TileWalk& walk, int tiles,
                                               bool last, bool awaits, Stream& stream, float* sums) {
#pragma unroll 1
  while (true) {
    int some = tiles, further = 0;
    if (walk.rows_apart > 0) {
      const TileWalk& kept = *walk_here(step.plan);
      const int tile = kept.own.first + kept.own.count - walk.left,
                matrix = quotient(tile, kept.matrix_tiles);
      further = matrix * walk.rows_apart;
      some = min(tiles, (matrix + 1) * kept.matrix_tiles - tile);
    }
    multiply_any<kTiles>(step, walk, further, some, last && some == tiles, awaits, stream, sums);
    awaits = false;
    walk.left -= some;
    tiles -= some;
    if (tiles <= 0) return;
    sums += some * walk_here(step.plan)->tile_floats;
  }
}

/// The norm's factor of rows that were kept before it was known.
__device__ __noinline__ inline void finish_kept(const Segment* kept, StagedRows rows, const float* partial) {
  const Segment& segment = *kept;
  for (int n = 0; n < rows.count; ++n) {
    const float scale = row_factor(partial, n, segment.in.cols, segment.in.epsilon);
    float* row = segment.keep_normed + (rows.first + n) * segment.keep_normed_stride;
    for (int col = static_cast<int>(threadIdx.x) * 4; col < segment.in.cols; col += kTurnCols) {
      for (int i = 0; i < 4 && col + i < segment.in.cols; ++i) row[col + i] *= scale;
    }
  }
}

/// The turn at hand: its tiles times the staged rows, which are awaited here, and what becomes of the sums.
/// If nothing follows, the block arrives as soon as the results are written. What is not needed while the
/// warp multiplies is read again from shared memory.
template <int kTiles>
__device__ __forceinline__ void run_turn(const StepArguments& step) {
  const SharedPlan& plan = step.plan;
  TileWalk walk = load_words(walk_here(plan));
  const Segment& segment = *shared_at<const Segment>(walk.segment);
  Stream stream = load_stream(plan);
  // Most rings were filled when the product before was over.
  if (stream.under_way < plan.slots && (stream.left > 0 || stream.under_way < walk.stages))
    fill(step, stream);
  int half = walk.turn.half, round = 0, tiles = min(walk.batch, walk.left);
  bool last = walk.batch >= walk.rounds;
  int sums = walk.sums + half * walk.half_floats * 4;
  float factor = 1;
#pragma unroll 1
  while (true) {
    multiply_round<kTiles>(step, walk, tiles, last, round == 0, stream, shared_at<float>(sums));
    const TileWalk& kept = *walk_here(plan);
    const TileTurn& turn = kept.turn;
    if (last) tell_taken(plan, stream);
    // While the others multiply.
    const int rows_log = segment.rows_log, n = thread_here() & ((1 << rows_log) - 1),
              own = thread_here() >> rows_log;
    const int results = (min(kept.batch, kept.rounds - round) << slots_log_of(segment))
                        << results_log_of(segment);
    Result result = find_result(plan, segment, turn, round, sums, n, own, results);
    if (round == 0 && segment.normed) {
      if (own < results && n < turn.rows)
        factor = row_factor(shared_at<const float>(plan.partial) + kWarps * kMaxRows, n, segment.in.cols,
                            segment.in.epsilon);
      if (uniform(turn.keeps) != 0)
        finish_kept(&segment, turn.staged(), shared_at<const float>(plan.partial) + kWarps * kMaxRows);
    }
    __syncthreads();
#pragma unroll 1
    for (int i = own; i < results;) {
      if (result.parts >= 0) finish_result(segment, result, rows_log, turn.first_row + n, factor);
      i += kBlockThreads >> rows_log;
      result = find_result(plan, segment, turn, round, sums, n, i, results);
    }
    if (last && turn.more == 0) {
      arrive(step, kept.phase);
      break;
    }
    // With one half nobody may overtake.
    if (kept.half_floats > 0) {
      half ^= 1;
    } else {
      __syncthreads();
    }
    if (last) break;
    round += kept.batch;
    tiles = min(kept.batch, walk.left);
    last = round + kept.batch >= kept.rounds;
    sums = kept.sums + half * kept.half_floats * 4;
  }
  if (thread_here() % 32 == 0) place_here(plan)->half = half;
  fill(step, stream);
  keep_stream(plan, stream);
}

}  // namespace slip::backend::cuda
