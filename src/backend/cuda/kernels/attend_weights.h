// The weights of keys for one query, by one warp, a key a lane: tile after tile of a block of keys, relative
// to the highest score so far.
#pragma once

#include "backend/cuda/kernels/attend_tile.h"

namespace slip::backend::cuda {

struct KeyWeights {
  float weight = 0, factor = 0;      // of this lane's key; of what came before it
  float most = kNothing, total = 0;  // in a block of keys

  /// The next tile, from its scores. Where a block of keys begins there is nothing yet, and no highest score.
  /// `rescale`: where the factor goes; `high`: this lane's weight, the low part of which goes `low` further.
  __device__ __forceinline__ void weigh(int lane, float score, bool seen, float* rescale, uint16_t* high,
                                        int low) {
    const float highest = fmaxf(warp_highest(seen ? score : kNothing), most);
    factor = highest == kNothing ? 1.0f : expf(most - highest);
    if (lane == 0) *rescale = factor;
    most = highest;
    weight = seen ? expf(score - highest) : 0.0f;
    const Split parts = split_bf16(weight, 0);
    high[0] = static_cast<uint16_t>(parts.high);
    high[low] = static_cast<uint16_t>(parts.low);
  }
  __device__ __forceinline__ void add_up() { total = fmaf(total, factor, warp_sum(weight)); }
  /// A block of keys ends.
  __device__ __forceinline__ void begin() {
    total = 0;
    most = kNothing;
  }
};

}  // namespace slip::backend::cuda
