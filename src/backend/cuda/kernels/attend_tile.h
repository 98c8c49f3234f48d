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
  static constexpr int kKeys = kDim == 512 ? 32 : 64;
  static constexpr int kStride = kDim + 8;  // bf16 between keys: rows then start in other banks
  static constexpr int kSteps = kDim / 16;
  static constexpr int kSplit = kSteps < 4    ? kSteps
                                : kDim == 512 ? 8
                                              : 4;         // groups of warps that share the dimensions
  static constexpr int kKeyWarps = kSplit == 8 ? 2 : 4;    // of a group
  static constexpr int kOwnTiles = kKeys / 8 / kKeyWarps;  // of 8 keys, per warp
  static constexpr int kBytes = kKeys * kStride * 2;       // of keys or values
  static constexpr int kStepsPerWarp = kSteps / kSplit;
  static constexpr int kOutTiles = (kDim / 8 + kWarps - 1) / kWarps;  // of 8 dimensions, per warp
  static constexpr int kScoreStride = kKeys + 4;
  static constexpr int kWeightStride = kKeys + 8;
};

struct AttendPlan {
  int keys = 0, values = 0;  // where K = V: two buffers of both, in turn
  int turned = 0, turned_queries = 0, scores = 0, weights = 0, rescale = 0;
  int queries = 0;         // floats, until they are in registers: where scores come later,
  bool in_values = false;  // or the first values, or, where K = V, the second tile
  int end = 0;
};

__host__ __device__ constexpr int turned_dims(int pairs) {
  return (2 * pairs + 15) / 16 * 16;
}

template <int kDim>
__host__ __device__ AttendPlan attend_plan(int work, bool k_is_v, int pairs) {
  using T = Tile<kDim>;
  const int turned = k_is_v ? turned_dims(pairs) + 8 : 0;
  const int score_bytes = T::kSplit * kQueries * T::kScoreStride * 4, query_bytes = kQueries * kDim * 4;
  static_assert(kQueries * kDim * 4 <= T::kBytes);
  AttendPlan plan;
  plan.keys = work;
  plan.values = plan.keys + T::kBytes;
  plan.turned = plan.values + T::kBytes;
  // Where K = V, scores come where turned keys were.
  const int turned_bytes = 2 * T::kKeys * turned * 2;
  plan.turned_queries = plan.turned + (k_is_v && turned_bytes > score_bytes ? turned_bytes : score_bytes);
  plan.scores = plan.turned;
  plan.weights = plan.turned_queries + 2 * kQueries * turned * 2;
  plan.in_values = !k_is_v && query_bytes > score_bytes;
  plan.queries = k_is_v || plan.in_values ? plan.values : plan.scores;
  plan.rescale = plan.weights + 2 * kQueries * T::kWeightStride * 2;
  plan.end = plan.rescale + kQueries * 4;
  return plan;
}

/// A query, as multiplied with what the cache holds. Where that is the n of K = V: weighted with the norm of
/// the keys, and its turned dimensions apart, in pairs of bf16.
template <int kDim>
__device__ __forceinline__ void store_query(const AttendJob& job, const Head<pairs_of(kDim)>& head, int lane,
                                            float* query, uint16_t* high, uint16_t* low) {
  constexpr int kHalf = kDim / 2;
  if (!job.own.cache.k_is_v) return store_floats(head, query, kHalf, lane);
  const int pairs = job.own.turns.pairs;
#pragma unroll
  for (int j = 0; j < pairs_of(kDim); ++j) {
    const int i = lane + 32 * j;
    if (i >= kHalf) continue;
    const bool turned = i < pairs;
    query[i] = turned ? 0 : head.a[j] * __ldg(job.k_norm + i);
    query[i + kHalf] = turned ? 0 : head.b[j] * __ldg(job.k_norm + i + kHalf);
    if (!turned) continue;
    const Split parts = split_bf16(head.a[j], head.b[j]);
    high[i] = static_cast<uint16_t>(parts.high);
    high[pairs + i] = static_cast<uint16_t>(parts.high >> 16);
    low[i] = static_cast<uint16_t>(parts.low);
    low[pairs + i] = static_cast<uint16_t>(parts.low >> 16);
  }
  const int padding = 2 * pairs + lane;  // fewer than 16
  if (padding < turned_dims(pairs)) high[padding] = low[padding] = 0;
}

/// What it takes to turn some pairs of a tile's keys: a thread has kAtOnce of them, from `first` on.
struct KeyTurns {
  static constexpr int kAtOnce = 4;
  Turn turn[kAtOnce] = {};
  float a[kAtOnce] = {}, b[kAtOnce] = {};  // the norm

  template <int kDim>
  __device__ __forceinline__ void load(const AttendJob& job, int start, int first) {
    const int pairs = job.own.turns.pairs, count = Tile<kDim>::kKeys * pairs;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = min(first + j * kBlockThreads, count - 1), key = i / pairs, pair = i - key * pairs;
      a[j] = __ldg(job.k_norm + pair);
      b[j] = __ldg(job.k_norm + pair + kDim / 2);
      turn[j] = turn_at(job.own.turns, start + key, pair);
    }
  }
  template <int kDim>
  __device__ __forceinline__ void use(const AttendJob& job, int first, const uint16_t* n, uint16_t* high,
                                      uint16_t* low) const {
    const int pairs = job.own.turns.pairs, stride = turned_dims(pairs) + 8;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kBlockThreads, key = i / pairs, pair = i - key * pairs;
      if (key >= Tile<kDim>::kKeys) continue;
      const uint16_t* row = n + key * Tile<kDim>::kStride;
      const float x = bf16_low(row[pair]) * a[j], y = bf16_low(row[pair + kDim / 2]) * b[j];
      const Split split =
          split_bf16(x * turn[j].cosine - y * turn[j].sine, y * turn[j].cosine + x * turn[j].sine);
      high[key * stride + pair] = static_cast<uint16_t>(split.high);
      high[key * stride + pairs + pair] = static_cast<uint16_t>(split.high >> 16);
      low[key * stride + pair] = static_cast<uint16_t>(split.low);
      low[key * stride + pairs + pair] = static_cast<uint16_t>(split.low >> 16);
    }
  }
};

__device__ __forceinline__ uint32_t two_at(const uint16_t* from) {
  return *reinterpret_cast<const uint32_t*>(from);
}
/// The 16-row operand at a step of 16 columns.
__device__ __forceinline__ void row_operand(const uint16_t* rows, int stride, int col, uint32_t (&a)[4]) {
  const int thread = thread_here(), g = thread % 32 / 4, t = thread % 4;
  const uint16_t* at = rows + g * stride + col + 2 * t;
  a[0] = two_at(at);
  a[1] = two_at(at + 8 * stride);
  a[2] = two_at(at + 8);
  a[3] = two_at(at + 8 * stride + 8);
}

}  // namespace slip::backend::cuda
