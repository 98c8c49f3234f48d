// The second phase of attention: a warp takes 32 dimensions of a row and head, one a lane, and adds up what
// blocks of keys left of them, in the order of position, always relative to the highest score so far: so wide
// passes, which walk along the keys, need not know the highest of all before they begin. Bytes: the partial
// sums once, from the second-level cache through shared memory. Waiting for them is most of what it costs, so
// a warp has 40 blocks of keys under way, more than windows have, and where few warps have work, as in steps
// of one row, each has the space of others as well and up to eight times as many. Loops stay loops: what runs
// once a layer waits for its instructions longer than it takes to execute them.
#pragma once

#include "backend/cuda/kernels/attend_tile.h"
#include "backend/cuda/kernels/waiting.h"

namespace slip::backend::cuda {

inline constexpr int kMergedDims = 32, kMergedAtOnce = 40;
inline constexpr int kMergedTogether = 8;  // added without asking whether there are so many

/// How a block of keys joins those before it: what there is stays so much, and the block weighs so much.
struct MergeWeights {
  float stays, joins;
};
/// What exponents are relative to: the highest score, or where nothing has been seen yet anything that makes
/// zero, not NaN, of a score of nothing.
__device__ __forceinline__ float exponent_base(float highest) {
  return highest == kNothing ? 0.0f : highest;
}
/// Of a block whose highest score is `own`, between the highest before it and the highest with it.
__device__ __forceinline__ MergeWeights merge_weights(float before, float own, float after) {
  const float base = exponent_base(after);
  return {expf(before - base), expf(own - base)};
}
/// Narrow and wide attention merge sums of values, and sums of weights, by this.
__device__ __forceinline__ float merged(float before, float own, float stays, float joins) {
  return fmaf(joins, own, before * stays);
}

/// What is under way together: some of it for every warp.
struct alignas(16) MergeSpace {
  float parts[kMergedAtOnce][kMergedDims];
  float4 weights[kMergedAtOnce];  // MergeWeights of a block, and the sum it has
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
#pragma unroll 2
    for (int at = 0; at < kMergedAtOnce; at += 4)
      copy_async_or_zero(&space.parts[at + row][col], from + at * dims, at + row < count);
  }
  copy_commit();
}

/// What the next blocks of keys weigh, a lane having two of them: each relative to the highest score up to
/// it, `before` being that of all earlier ones. Returns the highest of all.
__device__ __forceinline__ float put_weights(const float2 (&own)[2], float before, int lane,
                                             MergeSpace& space) {
  float first = own[0].x, second = own[1].x;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {  // the first of a warp belong to all, so nobody is left out
    first = fmaxf(first, shuffle(first, max(lane - step, 0)));
    if (step < kMergedAtOnce - 32) second = fmaxf(second, shuffle(second, max(lane - step, 0)));
  }
  first = fmaxf(first, before);
  const float middle = shuffle(first, 31);
  second = fmaxf(second, middle);
  const auto put = [&](int at, float2 block, float up_to, float highest_before) {
    const float earlier = shuffle(up_to, max(lane - 1, 0));
    const MergeWeights weights = merge_weights(lane == 0 ? highest_before : earlier, block.x, up_to);
    if (at < kMergedAtOnce) space.weights[at] = make_float4(weights.stays, weights.joins, block.y, 0);
  };
  put(lane, own[0], first, before);
  put(lane + 32, own[1], second, middle);
  return shuffle(second, kMergedAtOnce - 33);
}

/// All blocks of keys of a row and head: this lane's dimension of 32.
__device__ __forceinline__ float merge_blocks(const float2* weights, const float* partials, int dims,
                                              int count, MergeSpace* space, int spaces) {
  const int lane = thread_here() % 32;
  while (spaces > 1 && spaces / 2 * kMergedAtOnce >= count) spaces /= 2;
  const auto weight_of = [&](int block) {
    return block < count ? load_fresh(weights + block) : make_float2(kNothing, 0);
  };
  float2 own[2] = {weight_of(lane), weight_of(lane + 32)};
  float sum = 0, value = 0, highest = kNothing;
  // As many turns as there are spaces only bring.
#pragma unroll 1
  for (int base = -spaces * kMergedAtOnce, at = 0; base < count;
       base += kMergedAtOnce, at = at + 1 < spaces ? at + 1 : 0) {
    MergeSpace& here = space[at];
    if (base >= 0) {
      highest = put_weights(own, highest, lane, here);
      own[0] = weight_of(base + kMergedAtOnce + lane);
      own[1] = weight_of(base + kMergedAtOnce + lane + 32);
      await_oldest(spaces);
      __syncwarp();
      const int end = min(kMergedAtOnce, count - base);
#pragma unroll 1
      for (int first = 0; first < end; first += kMergedTogether) {
#pragma unroll
        for (int j = 0; j < kMergedTogether; ++j) {
          const float4 block = here.weights[first + j];
          sum = merged(sum, block.z, block.x, block.y);
          value = merged(value, here.parts[first + j][lane], block.x, block.y);
        }
      }
      __syncwarp();  // all have been used
    }
    const int next = base + spaces * kMergedAtOnce;
    bring_parts(partials + static_cast<int64_t>(next) * dims, dims, count - next, here);
  }
  return value / sum;
}

/// Where a row and head's blocks of keys are that it sees, and this lane's dimension of 32 of them.
struct MergeItem {
  const float2* weights;
  const float* partials;
  int count;
  float* out;  // null = there is no such dimension
};
/// The index-th of a job.
__device__ __forceinline__ MergeItem merge_item(const AttendJob& job, const Step& step, int index,
                                                int slices) {
  const int kind = job.sliding ? 0 : 1, dims = job.own.cache.head_dim, lane = thread_here() % 32;
  const int query = quotient(index, slices), row = quotient(query, job.own.heads);
  const StepRow& own = step.row[row];
  const int before = KeyBlocks::of(job.sliding, step.group[own.group].first_key[kind]);
  const int first = KeyBlocks::of(job.sliding, own.first[kind]);
  const int place = query * job.most_blocks + first - before, dim = (index - query * slices) * kMergedDims;
  MergeItem item;
  item.weights = reinterpret_cast<const float2*>(job.weights) + place;
  item.partials = job.partials + static_cast<int64_t>(place) * dims + dim;
  item.count = KeyBlocks::of(job.sliding, own.end[kind] - 1) - first + 1;
  item.out = nullptr;
  if (dim + lane < dims)
    item.out = job.out + row * job.out_stride + (query - row * job.own.heads) * dims + dim + lane;
  return item;
}

__device__ __noinline__ inline void merge_attention(AttendPhase phase) {
  const AttendJob& job = phase.job();
  const int dims = job.own.cache.head_dim, slices = (dims + kMergedDims - 1) / kMergedDims;
  const int all = job.own.rows * job.own.heads * slices, blocks = static_cast<int>(gridDim.x);
  const int spaces = merge_spaces(quotient(all + blocks - 1, blocks)),
            own_space = thread_here() / 32 * spaces;
  int i = thread_here() / 32 * blocks + static_cast<int>(blockIdx.x);
#pragma unroll 1
  for (bool meets = true;; meets = false, i += blocks * kWarps) {
    const MergeItem item = merge_item(job, phase.step(), min(i, all - 1), slices);
    if (meets) phase.meet();
    if (i >= all) return;
    const float value = merge_blocks(item.weights, item.partials, dims, item.count,
                                     shared_at<MergeSpace>(phase.work()) + own_space, spaces);
    if (item.out != nullptr) *item.out = value;
  }
}

}  // namespace slip::backend::cuda
