// Row tiles of a matrix times staged rows, by the 16 warps of a block. The warps of a tile share its columns
// (packed_matrix.h); the sums of several tiles are left in shared memory before the block meets, adds those
// of the warps and writes the results (finish.h).
#pragma once

#include "backend/cuda/kernels/finish.h"
#include "backend/cuda/kernels/piece.h"

namespace slip::backend::cuda {

/// Sums are kept of a round of tiles of all rows of a pass, of several rounds where there are few rows: of so
/// many rows in all.
__host__ __device__ constexpr int rows_summed(int rows) {
  return rows <= 8 ? 8 : 16;
}

/// A warp's sums of a tile to shared memory, of pairs the low parts added to the high ones. A round of tiles
/// is [subtile][warp][row of the step][16 rows of the matrix]; rows of the step are padded to a power of two.
template <bool kHalves, int kSubtiles, int kTiles>
__device__ __forceinline__ void leave_sums(float* round_sums, int rows_log,
                                           float (&mine)[kSubtiles][kTiles][4]) {
  constexpr int kRows = kHalves ? 8 : 4;
  const int thread = thread_here(), lane = thread % 32, t = lane % 4;
  float* to = round_sums + ((thread / 32 * 16) << rows_log) + t * 32 + lane / 4;
  const int rows = 1 << rows_log;
#pragma unroll
  for (int s = 0; s < kSubtiles; ++s) {
#pragma unroll
    for (int column = 0; column < kTiles; ++column) {
      float(&sum)[4] = mine[s][column];
      if constexpr (!kHalves) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[j] += shuffle_xor(sum[j], 2);
      }
      float* at = to + ((s * kWarps * 16) << rows_log) + column * kRows * 16;
      const int n = column * kRows + 2 * t;
      if (2 * t < kRows && n < rows) {
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

/// What a warp has of a tile comes in so many stages: two pieces of one subtile are one.
__device__ __forceinline__ int tile_stages(const WarpShare& share, int way) {
  const int both = subtiles_of(way) == 1 ? 1 : 0;
  return (share.piece_end - share.piece + both) >> both;
}

/// The weights of `tiles` tiles come and are not used.
__device__ __forceinline__ void pass_stages(const SharedPlan& plan, const WarpShare& share, int way,
                                            int tiles, bool last, Stream& stream) {
  const int stages = tiles * tile_stages(share, way);
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
__device__ __forceinline__ void multiply_tiles(const SharedPlan& plan, const Space& space,
                                               const WarpShare& share, int further, int tiles, bool last,
                                               bool awaits, Stream& stream, float* sums) {
  using Work = Piece<kFormat, kGroups, kSubtiles, kTiles>;
  constexpr int kStagePieces = kSubtiles == 1 ? 2 : 1;
  const int lane = thread_here() % 32, rows_log = space.rows_log;
  Stage stage = staged_in(space, Work::kTiles);
  stage.rows += further;
  stage.biases += further;
  stage.scales += further;
  const RowPlaces rows = Work::places_of(stage, rows_log, lane);
  if (awaits) {
    if (tiles > 0) stream.next(plan);  // the weights as well, while others have rows to stage
    __syncthreads();
  }
#pragma unroll 1
  for (; tiles > 0; --tiles) {
    typename Work::Sums mine = {};
    int piece = share.piece;
#pragma unroll 1
    for (; piece < share.piece_end; piece += kStagePieces) {
      const int place = stream.next(plan);
      const bool goes_on = !last || tiles > 1 || piece + kStagePieces < share.piece_end;
      const bool both = kStagePieces == 2 && piece + 1 < share.piece_end;
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
    leave_sums<Work::kHalves>(sums, rows_log, mine);
    sums += (kWarps * 16 * kSubtiles) << rows_log;
  }
}

/// The same for whatever format the matrix has; `way`: the same for all lanes.
template <int kTiles>
__device__ __forceinline__ void multiply_any(const SharedPlan& plan, int way, const Space& space,
                                             const WarpShare& share, int further, int tiles, bool last,
                                             bool awaits, Stream& stream, float* sums) {
  const auto with = [&]<Format kFormat, int kGroups, int kSubtiles>() {
    multiply_tiles<kFormat, kGroups, kSubtiles, kTiles>(plan, space, share, further, tiles, last, awaits,
                                                        stream, sums);
  };
  // The most frequent ones without the detour of a jump table.
  using enum Format;
  if (way == multiplying(kAffine4Halves, 1, 1)) return with.template operator()<kAffine4Halves, 1, 1>();
  if (way == multiplying(kAffine4Halves, 1, 2)) return with.template operator()<kAffine4Halves, 1, 2>();
  if (way == multiplying(kAffine4, 1, 1)) return with.template operator()<kAffine4, 1, 1>();
  if (way == multiplying(kAffine4, 1, 2)) return with.template operator()<kAffine4, 1, 2>();
  if (way >= passing_on(1)) {
    if (awaits) __syncthreads();
    return pass_stages(plan, share, way, tiles, last, stream);
  }
  switch (way) {
    case multiplying(kAffine4, 2, 1): return with.template operator()<kAffine4, 2, 1>();
    case multiplying(kAffine4, 2, 2): return with.template operator()<kAffine4, 2, 2>();
    case multiplying(kAffine8, 1, 1): return with.template operator()<kAffine8, 1, 1>();
    case multiplying(kAffine8, 1, 2): return with.template operator()<kAffine8, 1, 2>();
    case multiplying(kAffine8, 2, 1): return with.template operator()<kAffine8, 2, 1>();
    case multiplying(kAffine8, 2, 2): return with.template operator()<kAffine8, 2, 2>();
    case multiplying(kAffine4Halves, 2, 1): return with.template operator()<kAffine4Halves, 2, 1>();
    case multiplying(kAffine4Halves, 2, 2): return with.template operator()<kAffine4Halves, 2, 2>();
    case multiplying(kAffine8Halves, 1, 1): return with.template operator()<kAffine8Halves, 1, 1>();
    case multiplying(kAffine8Halves, 1, 2): return with.template operator()<kAffine8Halves, 1, 2>();
    case multiplying(kAffine8Halves, 2, 1): return with.template operator()<kAffine8Halves, 2, 1>();
    case multiplying(kAffine8Halves, 2, 2): return with.template operator()<kAffine8Halves, 2, 2>();
    case multiplying(kBf16, 0, 1): return with.template operator()<kBf16, 0, 1>();
    default: return with.template operator()<kBf16, 0, 2>();
  }
}

/// More weights under way, where those of this turn are not all: most rings were filled when the product
/// before was over.
__device__ __forceinline__ void fill_for(const SharedPlan& plan, const WarpShare& share, int way,
                                         Stream& stream) {
  if (stream.under_way == plan.slots) return;
  if (stream.left > 0 || stream.under_way < share.count * tile_stages(share, way)) stream.fill(plan);
}

/// A simple turn (Duty::kSimple): its tiles times the staged rows, which are awaited here, and what becomes
/// of the sums. The block arrives as soon as the results are written. What is not needed while the warp
/// multiplies is read again from shared memory.
template <int kTiles>
__device__ __forceinline__ void run_simple(const StepArguments& step, int kind) {
  const SharedPlan& plan = step.plan;
  Stream stream;
  {
    const OwnJob& job = job_here(plan);
    const int way = Duty::multiplying(kind);
    const WarpShare share = load_words(&job.shares[thread_here() / 32]);
    const Space space = load_words(&job.segment.space);
    stream = load_stream(plan);
    fill_for(plan, share, way, stream);
    if (kTiles == 1 && (kind & Duty::kBunch) != 0) [[unlikely]]
      bring_shares(plan, job.segment, duty_at(plan, place_here(plan)->product).turn.run.listed);
    multiply_any<kTiles>(plan, way, space, share, 0, share.count, true, true, stream,
                         shared_at<float>(space.sums));
  }
  tell_taken(stream);
  const Place* place = place_here(plan);
  const Segment& segment = shared_at<const OwnJob>(place->job)->segment;
  const TileTurn& turn = duty_at(plan, place->product).turn;
  const bool few = (kind & Duty::kFew) != 0;
  if (kTiles == 1 && (kind & Duty::kBunch) != 0) [[unlikely]] {
    finish_bunch(&segment, &turn, 0, turn.rounds, segment.space.sums, plan.partial);
  } else {
    finish_rounds(plan, segment, turn, 0, turn.rounds, segment.space.sums, kind, few);
  }
  arrive(step, few);
  stream.fill(plan);
  keep_stream(plan, stream);
}

/// What a warp has to do until the block meets to add up sums, and where those go.
struct Batch {
  int round;  // of tiles, the first one,
  int end;    // and of the warp's own tiles the one behind the last
  int sums;
  bool last;  // nothing of the turn follows
};
__device__ __forceinline__ Batch batch_here(const TileWalk& walk, const Space& space) {
  const bool last = walk.round + space.batch >= walk.turn.rounds;
  return {walk.round, last ? walk.share.count : min(walk.share.count, walk.round + space.batch),
          space.sums + walk.turn.half * space.half_floats * 4, last};
}

/// Of `tiles` tiles from a warp's number `done` on those of one matrix, and how far behind the first one's
/// its rows are, where every matrix has rows of its own.
struct OneMatrix {
  int tiles, further;
};
__device__ __forceinline__ OneMatrix one_matrix(const TileWalk& walk, const Segment& segment, int done,
                                                int tiles) {
  const int tile = walk.turn.run.tile + walk.share.first + done,
            matrix = quotient(tile, segment.matrix.tiles);
  return {min(tiles, (matrix + 1) * segment.matrix.tiles - tile), matrix * segment.space.rows_apart};
}

/// A turn that is not simple, batch by batch of rounds. Not inlined: few products of a single row need it.
template <int kTiles>
__device__ __noinline__ void run_batches(int arguments, int kind) {
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  const SharedPlan& plan = step.plan;
  const int way = Duty::multiplying(kind);
  const WarpShare share = load_words(&walk_here(plan)->share);
  Stream stream = load_stream(plan);
  fill_for(plan, share, way, stream);
  const bool bunch = kTiles == 1 && (kind & Duty::kBunch) != 0;
  if (bunch) bring_shares(plan, job_here(plan).segment, walk_here(plan)->turn.run.listed);
  int done = 0;  // of the warp's tiles
  bool awaits = true;
#pragma unroll 1
  while (true) {
    {
      const TileWalk& walk = *walk_here(plan);
      const Segment& segment = job_here(plan).segment;
      const Space space = load_words(&segment.space);
      const Batch batch = batch_here(walk, space);
      OneMatrix some{batch.end - done, 0};
      if (space.rows_apart > 0) some = one_matrix(walk, segment, done, some.tiles);
      const int tile_floats = (kWarps * 16 * subtiles_of(way)) << space.rows_log;
      multiply_any<kTiles>(plan, way, space, share, some.further, some.tiles,
                           batch.last && done + some.tiles == batch.end, awaits, stream,
                           shared_at<float>(batch.sums) + (done - batch.round) * tile_floats);
      done += some.tiles;
      awaits = false;
    }
    TileWalk* walk = walk_here(plan);
    const Segment& segment = job_here(plan).segment;
    const Batch batch = batch_here(*walk, segment.space);
    if (done < batch.end) continue;
    const bool last = uniform(batch.last ? 1 : 0) != 0;
    if (last) tell_taken(stream);
    const int rounds_end = min(walk->turn.rounds, batch.round + segment.space.batch);
    const bool stacked = uniform(segment.matrix.count) > 1;
    if (bunch) {
      finish_bunch(&segment, &walk->turn, batch.round, rounds_end, batch.sums, plan.partial);
    } else if (stacked) {
      finish_chosen(plan, segment, walk->turn, batch.round, rounds_end, batch.sums);
    } else {
      finish_rounds(plan, segment, walk->turn, batch.round, rounds_end, batch.sums, kind, false);
    }
    if (last && uniform(walk->turn.more) == 0) break;
    // With one half nobody may overtake; nor may the next turn's sums of squares, which finish_chosen()
    // reads.
    const int half_floats = segment.space.half_floats;
    if (half_floats == 0 || (last && stacked)) __syncthreads();
    __syncwarp();
    if (thread_here() % 32 == 0) {
      walk->round = batch.round + segment.space.batch;
      walk->turn.half ^= half_floats > 0 ? 1 : 0;
    }
    __syncwarp();
    if (!last) continue;
    if (thread_here() % 32 == 0) place_here(plan)->phase |= Place::kAgain;
    stream.fill(plan);
    return keep_stream(plan, stream);
  }
  arrive(step);
  stream.fill(plan);
  keep_stream(plan, stream);
}

}  // namespace slip::backend::cuda
