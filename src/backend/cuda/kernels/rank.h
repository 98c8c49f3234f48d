// Values as whole numbers of the same order, which the hardware compares over a warp at once.
#pragma once

#include "backend/cuda/kernels/device.h"

namespace slip::backend::cuda {

/// Larger for better values, 0 for what cannot be. Both zeros are one value.
__device__ inline uint32_t rank_of(float value) {
  if (!(value > -INFINITY)) return 0;
  const uint32_t bits = __float_as_uint(value == 0 ? 0.0f : value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
/// How many of `count` ranks, a multiple of 32 of them in shared memory, are better than that of `item`,
/// which is not 0; of equal ones the earlier is. By four neighbouring threads, who know it afterwards: each
/// compares it with a quarter of all, beginning with another four of them, so that they do not meet in the
/// same banks.
inline constexpr int kRankSharers = 4;
__device__ __forceinline__ int better_ones(const uint32_t* ranks, int count, int item) {
  const int part = thread_here() % kRankSharers, fours = count / (4 * kRankSharers),
            turned = part < fours ? part : part - fours;
  const uint32_t own = ranks[item];
  int better = 0;
#pragma unroll 4
  for (int i = 0; i < fours; ++i) {
    const int first = (part * fours + (i + turned < fours ? i + turned : i + turned - fours)) * 4;
    const uint4 four = *reinterpret_cast<const uint4*>(ranks + first);
    const auto least = [&](int j) { return first + j < item ? own - 1 : own; };
    better += (four.x > least(0) ? 1 : 0) + (four.y > least(1) ? 1 : 0) + (four.z > least(2) ? 1 : 0) +
              (four.w > least(3) ? 1 : 0);
  }
#pragma unroll
  for (int mask = 1; mask < kRankSharers; mask *= 2) better += shuffle_xor(better, mask);
  return better;
}
__device__ inline float value_of_rank(uint32_t rank) {
  return __uint_as_float((rank & 0x80000000u) != 0 ? rank & 0x7fffffffu : ~rank);
}

}  // namespace slip::backend::cuda
