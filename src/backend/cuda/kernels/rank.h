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
__device__ inline float value_of_rank(uint32_t rank) {
  return __uint_as_float((rank & 0x80000000u) != 0 ? rank & 0x7fffffffu : ~rank);
}

}  // namespace slip::backend::cuda
