// The second phase of attention: a warp takes 32 dimensions of a row and head, one a lane, and adds up what
// blocks of keys left of them, in the order of position. Bytes: the partial sums once, from the second-level
// cache; 40 blocks of keys are under way at a time, more than windows have, because waiting for them is most
// of what it costs.
#pragma once

#include "backend/cuda/kernels/attend_tile.h"

namespace slip::backend::cuda {

inline constexpr int kMergedAtOnce = 40, kMergedTogether = 8;
inline constexpr int kMergeBytes = kWarps * kMergedAtOnce * 8;

/// What blocks of keys left of a dimension, `count` of them. Those that are not there are like the last one,
/// but weigh nothing.
__device__ __forceinline__ void load_parts(const float* from, int dims, int count,
                                           float (&parts)[kMergedAtOnce]) {
#pragma unroll
  for (int at = 0; at < kMergedAtOnce; at += kMergedTogether) {
    if (at >= count) break;
#pragma unroll
    for (int j = at; j < at + kMergedTogether; ++j) parts[j] = load_fresh(from + min(j, count - 1) * dims);
  }
}

/// One dimension a lane of a row and head, over all blocks of keys; `places` are this warp's, in shared
/// memory.
__device__ __forceinline__ float merge_blocks(const float2* weights, const float* partials, int dims,
                                              int count, float2* places) {
  const int lane = thread_here() % 32;
  const auto weight_of = [&](int block) {
    return block < count ? load_fresh(weights + block) : make_float2(kNothing, 0);
  };
  float parts[kMergedAtOnce] = {};
  float2 own[2] = {weight_of(lane), weight_of(lane + 32)};
  load_parts(partials, dims, count, parts);
  float highest = fmaxf(own[0].x, own[1].x);
#pragma unroll 1
  for (int block = lane + 64; block < count; block += 32) highest = fmaxf(highest, weight_of(block).x);
  highest = warp_highest(highest);
  float sum = 0, value = 0;
#pragma unroll 1
  for (int base = 0; base < count; base += kMergedAtOnce) {
    const int left = count - base;
    if (base > 0) {
      own[0] = weight_of(base + lane);
      own[1] = weight_of(base + lane + 32);
      load_parts(partials + static_cast<int64_t>(base) * dims, dims, left, parts);
      __syncwarp();  // those before have been read
    }
    // What each block weighs, and the sum it has, for all lanes to see; nothing where there is none.
    places[lane] = make_float2(expf(own[0].x - highest), own[0].y);
    if (lane + 32 < kMergedAtOnce) places[lane + 32] = make_float2(expf(own[1].x - highest), own[1].y);
    __syncwarp();
#pragma unroll
    for (int at = 0; at < kMergedAtOnce; at += kMergedTogether) {
      if (at >= left) break;
#pragma unroll
      for (int j = at; j < at + kMergedTogether; j += 2) {
        const auto two = *reinterpret_cast<const float4*>(places + j);
        sum = fmaf(two.x, two.y, sum);
        value = fmaf(two.x, parts[j], value);
        sum = fmaf(two.z, two.w, sum);
        value = fmaf(two.z, parts[j + 1], value);
      }
    }
  }
  return value / sum;
}

__device__ __noinline__ inline void merge_attention(int job_place, int step_place, int work) {
  const AttendJob& job = *shared_at<const AttendJob>(job_place);
  const Step& step = *shared_at<const Step>(step_place);
  const int kind = job.sliding ? 0 : 1;
  const int dims = job.own.cache.head_dim, slices = (dims + 31) / 32;
  const int heads = job.own.heads, all = job.own.rows * heads * slices;
  const int blocks = static_cast<int>(gridDim.x);
#pragma unroll 1
  for (int i = thread_here() / 32 * blocks + static_cast<int>(blockIdx.x); i < all; i += blocks * kWarps) {
    const int query = quotient(i, slices), row = quotient(query, heads);
    const StepRow& own = step.row[row];
    const int before = KeyBlocks::of(job.sliding, step.group[own.group].first_key[kind]);
    const int first = KeyBlocks::of(job.sliding, own.first[kind]);
    const int count = KeyBlocks::of(job.sliding, own.end[kind] - 1) - first + 1;
    const int place = query * job.most_blocks + first - before;
    const int dim = (i - query * slices) * 32 + thread_here() % 32;
    // Lanes past the end of small heads do what others do.
    const float value =
        merge_blocks(reinterpret_cast<const float2*>(job.weights) + place,
                     job.partials + static_cast<int64_t>(place) * dims + min(dim, dims - 1), dims, count,
                     shared_at<float2>(work) + thread_here() / 32 * kMergedAtOnce);
    __syncwarp();  // places have been read
    if (dim < dims) job.out[row * job.out_stride + (query - row * heads) * dims + dim] = value;
  }
}

}  // namespace slip::backend::cuda
