// One head of a row in the registers of a warp: lane l has the pairs l, l + 32, ... that turn together.
#pragma once

#include "backend/cuda/kernels/cache_access.h"

namespace slip::backend::cuda {

inline constexpr int kMostPairs = 8;  // of a lane: heads of up to 512
/// Of a lane, where the size of the heads is known.
__host__ __device__ constexpr int pairs_of(int dims) {
  return dims <= 64 ? 1 : dims / 64;
}

template <int kPairs = kMostPairs>
struct Head {
  float a[kPairs], b[kPairs];  // x[i], x[i + half] for i = lane + 32 j
};

template <int kPairs = kMostPairs>
__device__ __forceinline__ Head<kPairs> read_head(const float* from, int half, int lane) {
  Head<kPairs> head;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = lane + 32 * j;
    head.a[j] = i < half ? load_fresh(from + i) : 0;
    head.b[j] = i < half ? load_fresh(from + i + half) : 0;
  }
  return head;
}

/// 1 / the root mean square.
template <int kPairs>
__device__ __forceinline__ float norm_factor(const Head<kPairs>& head, int half, float epsilon) {
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) squares = fmaf(head.a[j], head.a[j], fmaf(head.b[j], head.b[j], squares));
  return 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(2 * half) + epsilon);
}

/// Loads come before anything that waits for one of them, and without branches: lanes past the end read what
/// they do not use. Of large heads, of which often only a part turns, so many pairs of a lane at a time:
inline constexpr int kPairsAtOnce = 4;

template <int kPairs, int kFirst = 0>
struct HeadTurns {
  static constexpr int kCount = kPairs - kFirst < kPairsAtOnce ? kPairs - kFirst : kPairsAtOnce;
  Turn turn[kCount];

  __device__ __forceinline__ HeadTurns(const Turns& turns, int position, int lane) {
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      turn[j] = turn_at(turns, position, min(lane + 32 * (kFirst + j), turns.pairs - 1));
  }
  __device__ __forceinline__ void use(Head<kPairs>& head, const Turns& turns, int position, int lane) const {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      float &x = head.a[kFirst + j], &y = head.b[kFirst + j];
      const bool turned = lane + 32 * (kFirst + j) < turns.pairs;
      const float a = x, b = y;
      x = turned ? a * turn[j].cosine - b * turn[j].sine : a;
      y = turned ? b * turn[j].cosine + a * turn[j].sine : b;
    }
    if constexpr (kFirst + kCount < kPairs) {
      if (turns.pairs > 32 * (kFirst + kCount))
        HeadTurns<kPairs, kFirst + kCount>(turns, position, lane).use(head, turns, position, lane);
    }
  }
};

template <int kPairs>
struct HeadNorm {
  float a[kPairs], b[kPairs];

  /// `weight` may be null: ones.
  __device__ __forceinline__ HeadNorm(const float* weight, int half, int lane) {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int i = min(lane + 32 * j, half - 1);
      a[j] = weight != nullptr ? __ldg(weight + i) : 1.0f;
      b[j] = weight != nullptr ? __ldg(weight + i + half) : 1.0f;
    }
  }
  __device__ __forceinline__ void use(Head<kPairs>& head, float factor) const {
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      head.a[j] *= factor * a[j];
      head.b[j] *= factor * b[j];
    }
  }
};

template <int kPairs>
__device__ __forceinline__ void norm_head(Head<kPairs>& head, const float* weight, int half, int lane,
                                          float epsilon) {
  const HeadNorm<kPairs> norm(weight, half, lane);
  norm.use(head, norm_factor(head, half, epsilon));
}

template <int kPairs>
__device__ __forceinline__ void turn_head(Head<kPairs>& head, const Turns& turns, int position, int lane) {
  HeadTurns<kPairs>(turns, position, lane).use(head, turns, position, lane);
}

/// Both, with their loads together.
template <int kPairs>
__device__ __forceinline__ void norm_and_turn(Head<kPairs>& head, const float* weight, const Turns& turns,
                                              int position, int half, int lane, float epsilon) {
  const HeadNorm<kPairs> norm(weight, half, lane);
  const HeadTurns<kPairs> turn(turns, position, lane);
  norm.use(head, norm_factor(head, half, epsilon));
  turn.use(head, turns, position, lane);
}

}  // namespace slip::backend::cuda
