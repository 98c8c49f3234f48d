// The second phase of attention: a warp takes 32 dimensions of a row and head, one a lane, and adds up what
// blocks of keys left of them, in the order of position. Bytes: the partial sums once, from the second-level
// cache through shared memory. Waiting for them is most of what it costs, so a warp has 40 blocks of keys
// under way, more than windows have, and where few warps have work, as in steps of one row, each has the
// space of others as well and up to eight times as many.
#pragma once

#include "backend/cuda/kernels/attend_tile.h"

namespace slip::backend::cuda {

inline constexpr int kMergedDims = 32, kMergedAtOnce = 40;
inline constexpr int kMergedTogether = 8;  // added without asking whether there are so many

/// What is under way together: some of it for every warp.
struct alignas(16) MergeSpace {
  float parts[kMergedAtOnce][kMergedDims];
  float2 weights[kMergedAtOnce];  // how much a block weighs, and the sum it has
};
inline constexpr int kMergeBytes = kWarps * static_cast<int>(sizeof(MergeSpace));
inline constexpr int kMostMergeSpaces = 8;  // of a warp

/// Spaces that each of the first `warps` warps of a block may have: 1, 2, 4 or 8.
__device__ __forceinline__ int merge_spaces(int warps) {
  int spaces = kMostMergeSpaces;
  while (spaces > 1 && spaces * warps > kWarps) spaces /= 2;
  return spaces;
}
/// Waits for the oldest of so many groups of copies.
__device__ __forceinline__ void await_oldest(int groups) {
  if (groups == 8) return copy_wait<7>();
  if (groups == 4) return copy_wait<3>();
  if (groups == 2) return copy_wait<1>();
  copy_wait<0>();
}

/// Starts to bring what the first `count` blocks of keys left of 32 dimensions, as a group of copies; nothing
/// where there is none.
__device__ __forceinline__ void bring_parts(const float* from, int dims, int count, MergeSpace& space) {
  if (count > 0) {
    const int lane = thread_here() % 32, row = lane / 8, col = lane % 8 * 4;
    from += row * dims + min(col, dims - 4);  // of small heads some are brought twice
#pragma unroll
    for (int at = 0; at < kMergedAtOnce; at += 4)
      copy_async_or_zero(&space.parts[at + row][col], from + at * dims, at + row < count);
  }
  copy_commit();
}

/// All blocks of keys of a row and head: this lane's dimension of 32.
__device__ __forceinline__ float merge_blocks(const float2* weights, const float* partials, int dims,
                                              int count, MergeSpace* space, int spaces) {
  const int lane = thread_here() % 32;
  while (spaces > 1 && spaces / 2 * kMergedAtOnce >= count) spaces /= 2;
  const auto weight_of = [&](int block) {
    return block < count ? load_fresh(weights + block) : make_float2(kNothing, 0);
  };
  const auto bring = [&](int base, int to) {
    bring_parts(partials + static_cast<int64_t>(base) * dims, dims, count - base, space[to]);
  };
#pragma unroll 1
  for (int i = 0; i < spaces; ++i) bring(i * kMergedAtOnce, i);
  float2 own[2] = {weight_of(lane), weight_of(lane + 32)};
  float highest = fmaxf(own[0].x, own[1].x);
#pragma unroll 8
  for (int block = lane + 64; block < count; block += 32) highest = fmaxf(highest, weight_of(block).x);
  highest = warp_highest(highest);
  float sum = 0, value = 0;
#pragma unroll 1
  for (int base = 0, at = 0; base < count; base += kMergedAtOnce, at = at + 1 < spaces ? at + 1 : 0) {
    MergeSpace& here = space[at];
    here.weights[lane] = make_float2(expf(own[0].x - highest), own[0].y);
    if (lane + 32 < kMergedAtOnce) here.weights[lane + 32] = make_float2(expf(own[1].x - highest), own[1].y);
    own[0] = weight_of(base + kMergedAtOnce + lane);
    own[1] = weight_of(base + kMergedAtOnce + lane + 32);
    await_oldest(spaces);
    __syncwarp();
#pragma unroll
    for (int first = 0; first < kMergedAtOnce; first += kMergedTogether) {
      if (base + first >= count) break;
#pragma unroll
      for (int j = first; j < first + kMergedTogether; j += 2) {
        const auto two = *reinterpret_cast<const float4*>(here.weights + j);
        sum = fmaf(two.x, two.y, sum);
        value = fmaf(two.x, here.parts[j][lane], value);
        sum = fmaf(two.z, two.w, sum);
        value = fmaf(two.z, here.parts[j + 1][lane], value);
      }
    }
    __syncwarp();  // all have been used
    bring(base + spaces * kMergedAtOnce, at);
  }
  return value / sum;
}

__device__ __noinline__ inline void merge_attention(int job_place, int step_place, int work) {
  const AttendJob& job = *shared_at<const AttendJob>(job_place);
  const Step& step = *shared_at<const Step>(step_place);
  const int kind = job.sliding ? 0 : 1;
  const int dims = job.own.cache.head_dim, slices = (dims + kMergedDims - 1) / kMergedDims;
  const int heads = job.own.heads, all = job.own.rows * heads * slices;
  const int blocks = static_cast<int>(gridDim.x);
  const int spaces = merge_spaces(quotient(all + blocks - 1, blocks)),
            own_space = thread_here() / 32 * spaces;
#pragma unroll 1
  for (int i = thread_here() / 32 * blocks + static_cast<int>(blockIdx.x); i < all; i += blocks * kWarps) {
    const int query = quotient(i, slices), row = quotient(query, heads);
    const StepRow& own = step.row[row];
    const int before = KeyBlocks::of(job.sliding, step.group[own.group].first_key[kind]);
    const int first = KeyBlocks::of(job.sliding, own.first[kind]);
    const int count = KeyBlocks::of(job.sliding, own.end[kind] - 1) - first + 1;
    const int place = query * job.most_blocks + first - before, dim = (i - query * slices) * kMergedDims;
    const float value = merge_blocks(reinterpret_cast<const float2*>(job.weights) + place,
                                     job.partials + static_cast<int64_t>(place) * dims + dim, dims, count,
                                     shared_at<MergeSpace>(work) + own_space, spaces);
    const int lane = thread_here() % 32;
    if (dim + lane < dims) job.out[row * job.out_stride + (query - row * heads) * dims + dim + lane] = value;
  }
}

}  // namespace slip::backend::cuda
