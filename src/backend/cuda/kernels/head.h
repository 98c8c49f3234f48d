// One head of a row in the registers of a warp: lane l has the fours of dimensions 4l, 4l + 128 of the first
// half and those of the second half that turn with them, so that everything comes in words of 16 bytes.
#pragma once

#include "backend/cuda/kernels/cache_access.h"

namespace slip::backend::cuda {

inline constexpr int kMostFours = 2;  // of a lane and half: heads of up to 512
/// Of a lane, where the size of the heads is known.
__host__ __device__ constexpr int fours_of(int dims) {
  return dims <= 256 ? 1 : 2;
}

/// Four values, or as many times the same.
struct Four {
  float x[4];
};
__device__ __forceinline__ Four four_of(const float4& all) {
  return {{all.x, all.y, all.z, all.w}};
}
__device__ __forceinline__ Four four_of(float x) {
  return {{x, x, x, x}};
}

template <int kFours = kMostFours>
struct Head {
  Four a[kFours], b[kFours];  // x[i ..], x[i + half ..] for i = 4 lane + 128 j
};

template <int kFours = kMostFours>
__device__ __forceinline__ Head<kFours> read_head(const float* from, int half, int lane) {
  Head<kFours> head;
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    const int i = 4 * lane + 128 * j;
    head.a[j] = head.b[j] = four_of(0.0f);
    if (i >= half) continue;
    head.a[j] = four_of(load_fresh(reinterpret_cast<const float4*>(from + i)));
    head.b[j] = four_of(load_fresh(reinterpret_cast<const float4*>(from + i + half)));
  }
  return head;
}

/// 1 / the root mean square.
template <int kFours>
__device__ __forceinline__ float norm_factor(const Head<kFours>& head, int half, float epsilon) {
  float squares[4] = {};
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      squares[e] = fmaf(head.a[j].x[e], head.a[j].x[e], fmaf(head.b[j].x[e], head.b[j].x[e], squares[e]));
  }
  const float sum = warp_sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
  return inverse_root(sum / static_cast<float>(2 * half) + epsilon);
}

/// Weights of a norm for a head's dimensions, from `weight`, which may be null: ones.
template <int kFours>
__device__ __forceinline__ Head<kFours> norm_weights(const float* weight, int half, int lane) {
  Head<kFours> norm;
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    const int i = 4 * lane + 128 * j;
    norm.a[j] = norm.b[j] = four_of(1.0f);
    if (weight == nullptr || i >= half) continue;
    norm.a[j] = four_of(__ldg(reinterpret_cast<const float4*>(weight + i)));
    norm.b[j] = four_of(__ldg(reinterpret_cast<const float4*>(weight + i + half)));
  }
  return norm;
}
template <int kFours>
__device__ __forceinline__ void scale_head(Head<kFours>& head, const Head<kFours>& weights, float factor) {
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      head.a[j].x[e] *= factor * weights.a[j].x[e];
      head.b[j].x[e] *= factor * weights.b[j].x[e];
    }
  }
}

template <int kFours>
__device__ __forceinline__ void norm_head(Head<kFours>& head, const float* weight, int half, int lane,
                                          float epsilon) {
  const Head<kFours> weights = norm_weights<kFours>(weight, half, lane);
  scale_head(head, weights, norm_factor(head, half, epsilon));
}

/// Those pairs of a four that turn.
__device__ __forceinline__ void turn_four(Four& a, Four& b, const FourTurns& turns, int count) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (e < count) turn_pair(a.x[e], b.x[e], turns.at(e));
  }
}
/// From the j-th four of a lane on.
template <int kFours>
__device__ __forceinline__ void turn_head(Head<kFours>& head, const Turns& turns, int position, int lane,
                                          int first = 0) {
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    if (j < first || 128 * j >= turns.pairs) continue;  // of large heads often only a part turns
    const int i = 4 * lane + 128 * j;
    turn_four(head.a[j], head.b[j], FourTurns(turns, position, i), turns.pairs - i);
  }
}

/// Both, with their loads together.
template <int kFours>
__device__ __forceinline__ void norm_and_turn(Head<kFours>& head, const float* weight, const Turns& turns,
                                              int position, int half, int lane, float epsilon) {
  const Head<kFours> weights = norm_weights<kFours>(weight, half, lane);
  const FourTurns turn(turns, position, 4 * lane);
  scale_head(head, weights, norm_factor(head, half, epsilon));
  turn_four(head.a[0], head.b[0], turn, turns.pairs - 4 * lane);
  turn_head(head, turns, position, lane, 1);
}

/// Four values as bf16.
__device__ __forceinline__ uint2 packed_four(const Four& four) {
  return {pack_bf16(four.x[0], four.x[1]), pack_bf16(four.x[2], four.x[3])};
}
/// As two of bf16 whose sum they are to 16 bits.
struct SplitFour {
  uint2 high, low;
};
__device__ __forceinline__ SplitFour split_four(const Four& four) {
  const Split one = split_bf16(four.x[0], four.x[1]), two = split_bf16(four.x[2], four.x[3]);
  return {{one.high, two.high}, {one.low, two.low}};
}

}  // namespace slip::backend::cuda
