// The second phase of attention: a warp takes 32 dimensions of a row and head, one a lane, and adds up what
// blocks of keys left of them, in the order of position. Bytes: the partial sums once, from the second-level
// cache; 40 blocks of keys are under way at a time, more than windows have, because waiting for them is most
// of what it costs.
#pragma once

#include "backend/cuda/kernels/attend_tile.h"

namespace slip::backend::cuda {

inline constexpr int kMergedAtOnce = 40, kMergedTogether = 8;
inline constexpr int kMergeBytes = kWarps * kMergedAtOnce * 8;

/// Some blocks of keys of one row and head, as a lane sees them.
template <int kDim>
class Merging {
 public:
  __device__ __forceinline__ Merging(const AttendJob& job, const Step& state, int work, int row, int head,
                                     int dim) {
    const int kind = job.sliding ? 0 : 1;
    const StepRow& step = state.row[row];
    const int first = KeyBlocks::of(job.sliding, step.first[kind]);
    count_ = KeyBlocks::of(job.sliding, step.end[kind] - 1) - first + 1;
    const int place = (row * job.own.heads + head) * job.most_blocks + first -
                      KeyBlocks::of(job.sliding, state.group[step.group].first_key[kind]);
    weights_ = reinterpret_cast<const float2*>(job.weights) + place;
    partials_ = job.partials + static_cast<int64_t>(place) * kDim + dim;
    const int thread = thread_here();
    lane_ = thread % 32;
    shared_ = shared_at<float2>(work) + thread / 32 * kMergedAtOnce;
  }

  __device__ __forceinline__ float run() {
    load_weights(0);
    load_parts(0);
    float highest = fmaxf(own_[0].x, own_[1].x);
#pragma unroll 1
    for (int block = lane_ + kMergedAtOnce; block < count_; block += 32)
      highest = fmaxf(highest, load_fresh(weights_ + block).x);
    highest = warp_highest(highest);
    float sum = 0, value = 0;
#pragma unroll 1
    for (int base = 0;;) {
      share_weights(highest);
      add(base, sum, value);
      base += kMergedAtOnce;
      if (base >= count_) return value / sum;
      load_weights(base);
      load_parts(base);
    }
  }

 private:
  __device__ __forceinline__ void load_weights(int base) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int block = base + lane_ + 32 * i;
      own_[i] = make_float2(kNothing, 0);
      if (lane_ + 32 * i < kMergedAtOnce && block < count_) own_[i] = load_fresh(weights_ + block);
    }
  }
  __device__ __forceinline__ void load_parts(int base) {
    const float* from = partials_ + static_cast<int64_t>(base) * kDim;
    const int left = count_ - base;
#pragma unroll
    for (int at = 0; at < kMergedAtOnce; at += kMergedTogether) {
      if (at + kMergedTogether <= left) {
#pragma unroll
        for (int j = at; j < at + kMergedTogether; ++j) parts_[j] = load_fresh(from + j * kDim);
      } else if (at < left) {
#pragma unroll
        for (int j = at; j < at + kMergedTogether; ++j)
          parts_[j] = j < left ? load_fresh(from + j * kDim) : 0.0f;
      }
    }
  }
  /// What each block weighs, and the sum it has, for all lanes to see; nothing where there is none.
  __device__ __forceinline__ void share_weights(float highest) {
    __syncwarp();  // those before have been read
    shared_[lane_] = make_float2(expf(own_[0].x - highest), own_[0].y);
    if (lane_ + 32 < kMergedAtOnce) shared_[lane_ + 32] = make_float2(expf(own_[1].x - highest), own_[1].y);
    __syncwarp();
  }
  __device__ __forceinline__ void add(int base, float& sum, float& value) const {
#pragma unroll
    for (int at = 0; at < kMergedAtOnce; at += kMergedTogether) {
      if (base + at >= count_) break;
#pragma unroll
      for (int j = at; j < at + kMergedTogether; j += 2) {
        const auto two = *reinterpret_cast<const float4*>(shared_ + j);
        sum = fmaf(two.x, two.y, sum);
        value = fmaf(two.x, parts_[j], value);
        sum = fmaf(two.z, two.w, sum);
        value = fmaf(two.z, parts_[j + 1], value);
      }
    }
  }

  int count_, lane_;
  const float2* weights_;  // of the first block of keys
  const float* partials_;
  float2* shared_;
  float2 own_[2];
  float parts_[kMergedAtOnce];
};

template <int kDim>
__device__ __noinline__ void merge_attention(int job_place, int step_place, int work) {
  const AttendJob& job = *shared_at<const AttendJob>(job_place);
  constexpr int kSlices = (kDim + 31) / 32;
  const int heads = job.own.heads, all = job.own.rows * heads * kSlices;
  const int blocks = static_cast<int>(gridDim.x);
#pragma unroll 1
  for (int i = thread_here() / 32 * blocks + static_cast<int>(blockIdx.x); i < all; i += blocks * kWarps) {
    const int query = i / kSlices, row = quotient(query, heads), head = query - row * heads;
    const int dim = i % kSlices * 32 + thread_here() % 32;
    // Lanes past the end of small heads do what others do.
    const float value =
        Merging<kDim>(job, *shared_at<const Step>(step_place), work, row, head, min(dim, kDim - 1)).run();
    if (dim < kDim) job.out[row * job.out_stride + head * kDim + dim] = value;
  }
}

}  // namespace slip::backend::cuda
