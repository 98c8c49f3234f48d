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

template <int kPairs>
__device__ __forceinline__ void norm_head(Head<kPairs>& head, const float* weight, int half, int lane,
                                          float epsilon) {
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kPairs; ++j) squares = fmaf(head.a[j], head.a[j], fmaf(head.b[j], head.b[j], squares));
  const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(2 * half) + epsilon);
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    head.a[j] *= factor * (weight != nullptr ? __ldg(weight + i) : 1.0f);
    head.b[j] *= factor * (weight != nullptr ? __ldg(weight + i + half) : 1.0f);
  }
}

template <int kPairs>
__device__ __forceinline__ void turn_head(Head<kPairs>& head, const Turns& turns, int position, int lane) {
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= turns.pairs) continue;
    const Turn turn = turn_at(turns, position, i);
    const float a = head.a[j], b = head.b[j];
    head.a[j] = a * turn.cosine - b * turn.sine;
    head.b[j] = b * turn.cosine + a * turn.sine;
  }
}

}  // namespace slip::backend::cuda
