// What narrow and wide attention share: how keys are cut into tiles, what lies where in shared memory, and
// the operands of the tensor cores. The sizes in Tile decide the order of sums, so both must take them from
// here.
#pragma once

#include "backend/cuda/kernels/heads.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

inline constexpr int kQueries = 16;
inline constexpr float kNothing = -INFINITY;

template <int kDim>
struct Tile {
  static constexpr int kKeys = 32;          // a lane each, and never more than a block of keys
  static constexpr int kStride = kDim + 8;  // bf16 between keys: rows then start in other banks
  static constexpr int kSteps = kDim / 16;
  static constexpr int kSplit = kSteps < 4    ? kSteps
                                : kDim == 512 ? 8
                                              : 4;  // groups of warps that share the dimensions
  static constexpr int kStepsPerWarp = kSteps / kSplit;
  static constexpr int kBytes = kKeys * kStride * 2;       // of keys or values
  static constexpr int kOwnQueries = kSplit == 8 ? 2 : 1;  // eights of queries a warp scores
  static constexpr int kOutTiles = kDim == 512 ? 2 : 1;    // of 16 dimensions, per warp
  static constexpr int kScoreStride = kKeys + 4;
  static constexpr int kWeightStride = kKeys + 8;
};
static_assert(KeyBlocks::kShort == Tile<16>::kKeys);

/// Places in shared memory. Of large heads with keys and values there is one tile at a time, of all others
/// the next one is on its way.
template <int kDim, bool kOne>
struct AttendPlan {
  using T = Tile<kDim>;
  static constexpr int kBuffers = kOne || kDim <= 256 ? 2 : 1;
  static constexpr int kTileBytes = kOne ? T::kBytes : 2 * T::kBytes;  // keys, then values
  static constexpr int kTiles = 0;
  static constexpr int kScores = kBuffers * kTileBytes;  // [split][query][key]
  // Queries until they are in registers, high parts and low parts: where the second tile or the scores come.
  static constexpr int kQueryBytes = 2 * kQueries * T::kStride * 2;
  static constexpr int kQueryPlace = kBuffers == 2 ? kTileBytes : kScores;
  static constexpr int kScoreBytes = T::kSplit * kQueries * T::kScoreStride * 4;
  static_assert(kBuffers == 1 || kQueryBytes <= kTileBytes);

  int turned = 0;  // where K = V, turned keys lie where scores come
  int turned_queries = 0, weights = 0, rescale = 0, places = 0, end = 0;
};

__host__ __device__ constexpr int turned_dims(int pairs) {
  return (2 * pairs + 15) / 16 * 16;
}

template <int kDim, bool kOne>
__host__ __device__ constexpr AttendPlan<kDim, kOne> attend_plan(int pairs) {
  using P = AttendPlan<kDim, kOne>;
  using T = Tile<kDim>;
  const int stride = kOne ? turned_dims(pairs) + 8 : 0, turned_bytes = 2 * T::kKeys * stride * 2;
  int shared = P::kScoreBytes;
  if (P::kBuffers == 1 && P::kQueryBytes > shared) shared = P::kQueryBytes;
  if (turned_bytes > shared) shared = turned_bytes;
  P plan;
  plan.turned = P::kScores;
  plan.turned_queries = P::kScores + shared;
  plan.weights = plan.turned_queries + 2 * kQueries * stride * 2;
  plan.rescale = plan.weights + 2 * kQueries * T::kWeightStride * 2;
  plan.places = plan.rescale + kQueries * 4;
  plan.end = plan.places + kQueries * 4;
  return plan;
}

__device__ __forceinline__ uint32_t two_at(const uint16_t* from) {
  return *reinterpret_cast<const uint32_t*>(from);
}

/// Where a lane's row begins for load_matrices() of the operand with 16 rows: rows 0 to 7, then 8 to 15, of
/// eight columns, then the same of the next eight. In bf16 from the operand's start.
__device__ __forceinline__ int rows_place(int lane, int stride) {
  return lane % 16 * stride + lane / 16 * 8;
}
/// The same with rows that lie as columns, for load_transposed().
__device__ __forceinline__ int columns_place(int lane, int stride) {
  return (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
}
/// Of the operand with eight columns in two parts: 16 rows of the high part, then of the low part, which lies
/// `low` after it.
__device__ __forceinline__ int split_place(int lane, int stride, int low) {
  return lane % 8 * stride + lane / 8 % 2 * 8 + lane / 16 * low;
}

/// Four values of turned dimensions, of which `count` are there.
__device__ __forceinline__ void store_turned(uint16_t* to, uint2 four, int count, bool whole) {
  if (whole) {
    *reinterpret_cast<uint2*>(to) = four;
    return;
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (e < count) to[e] = static_cast<uint16_t>((e < 2 ? four.x : four.y) >> 16 * (e % 2));
  }
}

/// Fours of turned pairs that a key takes the place of, as a power of two, so that nobody divides.
__device__ __forceinline__ int log_of_fours(int pairs) {
  int log = 0;
  while (4 << log < pairs) ++log;
  return log;
}
/// What it takes to turn four pairs of a key: a thread has those at `index`, where a key has 2^log fours.
template <int kDim>
struct KeyTurns {
  FourTurns turn;
  Four a = {}, b = {};  // the norm

  /// What is another for every key, and then what all keys have alike: most of it is near by then.
  __device__ __forceinline__ void load_own(const AttendJob& job, int start, int index, int log) {
    const int key = index >> log, pair = (index - (key << log)) * 4;
    if (pair < job.own.turns.pairs && key < Tile<kDim>::kKeys)
      turn.load_page(job.own.turns, start + key, pair);
  }
  __device__ __forceinline__ void load_shared(const AttendJob& job, int start, int index, int log) {
    const int pair = (index - (index >> log << log)) * 4;
    if (pair >= job.own.turns.pairs) return;
    a = four_of(__ldg(reinterpret_cast<const float4*>(job.k_norm + pair)));
    b = four_of(__ldg(reinterpret_cast<const float4*>(job.k_norm + pair + kDim / 2)));
    turn.load_base(job.own.turns, start, pair);
  }
  __device__ __forceinline__ void use(int pairs, int index, int log, const uint16_t* n, uint16_t* high,
                                      int low) const {
    const int key = index >> log, pair = (index - (key << log)) * 4, stride = turned_dims(pairs) + 8;
    if (pair >= pairs || key >= Tile<kDim>::kKeys) return;
    const uint16_t* row = n + key * Tile<kDim>::kStride + pair;
    const auto values = [](const uint16_t* from, const Four& norm) {
      const uint2 four = *reinterpret_cast<const uint2*>(from);
      return Four{{bf16_low(four.x) * norm.x[0], bf16_high(four.x) * norm.x[1], bf16_low(four.y) * norm.x[2],
                   bf16_high(four.y) * norm.x[3]}};
    };
    Four x = values(row, a), y = values(row + kDim / 2, b);
    turn_four(x, y, turn, 4);
    const SplitFour one = split_four(x), two = split_four(y);
    const bool whole = pairs % 4 == 0;
    uint16_t* to = high + key * stride + pair;
    store_turned(to, one.high, pairs - pair, whole);
    store_turned(to + pairs, two.high, pairs - pair, whole);
    store_turned(to + low, one.low, pairs - pair, whole);
    store_turned(to + low + pairs, two.low, pairs - pair, whole);
  }
};

}  // namespace slip::backend::cuda
