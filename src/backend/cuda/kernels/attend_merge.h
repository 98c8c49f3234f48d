// The second phase of attention: a warp takes 64 dimensions of a row and head and adds up what blocks of keys
// left of them, in the order of position. Bytes: the partial sums once, from the second-level cache; 32
// blocks of keys are under way at a time, because waiting for them is all it costs.
#pragma once

#include "backend/cuda/kernels/attend_tile.h"

namespace slip::backend::cuda {

/// Dimensions [dim, dim + 64) of one row and head: its blocks of keys in the order of position, by one warp.
__device__ __forceinline__ void merge_blocks(const AttendJob& job, const Step& state, int row, int head,
                                             int dim) {
  constexpr int kAtOnce = 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, kind = job.sliding ? 0 : 1;
  const int dims = job.own.cache.head_dim, heads = job.own.heads;
  const StepRow& step = state.row[row];
  const int offset = KeyBlocks::of(job.sliding, state.group[step.group].first_key[kind]);
  const int first = KeyBlocks::of(job.sliding, step.first[kind]) - offset;
  const int count = KeyBlocks::of(job.sliding, step.end[kind] - 1) - offset - first + 1;
  const int64_t place = static_cast<int64_t>(first * kMaxRows + row) * heads + head;
  const auto* weights = reinterpret_cast<const float2*>(job.weights) + place;
  const auto weights_of = [&](int block) {
    if (block >= count) return make_float2(kNothing, 0);
    return load_fresh(weights + static_cast<int64_t>(block) * kMaxRows * heads);
  };
  dim += 2 * lane;
  const bool mine = dim < dims;
  const float* partials = job.partials + place * dims + (mine ? dim : 0);
  float2 parts[kAtOnce], own = weights_of(lane);
  const auto load_parts = [&](int base) {
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      parts[j] = make_float2(0, 0);
      if (base + j < count)
        parts[j] = load_fresh(reinterpret_cast<const float2*>(partials + static_cast<int64_t>(base + j) *
                                                                             kMaxRows * heads * dims));
    }
  };
  load_parts(0);
  float highest = own.x;
#pragma unroll 1
  for (int block = lane + kAtOnce; block < count; block += kAtOnce)
    highest = fmaxf(highest, weights_of(block).x);
  highest = warp_max(highest);
  float sum = 0;
  float2 value = make_float2(0, 0);
#pragma unroll 1
  for (int base = 0; base < count; base += kAtOnce) {
    if (base > 0) {
      own = weights_of(base + lane);
      load_parts(base);
    }
    const float scale = expf(own.x - highest);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (base + j >= count) break;
      const float weight = shuffle(scale, j);
      sum = fmaf(weight, shuffle(own.y, j), sum);
      value = make_float2(fmaf(weight, parts[j].x, value.x), fmaf(weight, parts[j].y, value.y));
    }
  }
  if (mine)
    *reinterpret_cast<float2*>(job.out + row * job.out_stride + head * dims + dim) =
        make_float2(value.x / sum, value.y / sum);
}

__device__ __noinline__ inline void merge_attention(int job_place, int step_place) {
  const AttendJob& job = *shared_at<const AttendJob>(job_place);
  const int heads = job.own.heads, slices = (job.own.cache.head_dim + 63) / 64;
  const int warps = static_cast<int>(gridDim.x) * kWarps;
#pragma unroll 1
  for (int i =
           static_cast<int>(threadIdx.x) / 32 * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
       i < job.own.rows * heads * slices; i += warps) {
    const int query = i / slices, row = query / heads;
    merge_blocks(job, *shared_at<const Step>(step_place), row, query - row * heads,
                 (i - query * slices) * 64);
  }
}

}  // namespace slip::backend::cuda
