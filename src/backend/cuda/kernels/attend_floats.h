// Attention over a cache of floats: one warp per row and query head, key by key. For comparing with
// references that keep full precision; nothing here is meant to be fast.
#pragma once

#include "backend/cuda/kernels/head.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

__device__ inline void attend_floats_head(const AttendJob& attend, const Step& state, int index) {
  const HeadsJob& job = attend.own;
  const int lane = thread_here() % 32;
  const int row = index / job.heads, head = index % job.heads, kind = attend.sliding ? 0 : 1;
  const int dims = job.cache.head_dim, half = dims / 2;
  const int kv_head = head / (job.heads / job.cache.kv_heads);
  const StepRow& step = state.row[row];
  const RowGroup& group = state.group[step.group];
  const int first = step.first[kind], end = step.end[kind];
  const Head<> query = read_head(job.query + row * job.query_stride + head * dims, half, lane);
  Head<> sum = {};
  float most = -INFINITY, total = 0;
  for (int position = first; position < end; ++position) {
    const auto part = [&](int which) {
      return read_head(
          reinterpret_cast<const float*>(cache_slot(job.cache, group, job.step, which, kv_head, position)),
          half, lane);
    };
    Head<> key = part(0);
    const Head<> value = job.cache.k_is_v ? key : part(1);
    if (job.cache.k_is_v) {
#pragma unroll
      for (int j = 0; j < kMostPairs; ++j) {
        const int i = lane + 32 * j;
        if (i >= half) continue;
        key.a[j] *= __ldg(attend.k_norm + i);
        key.b[j] *= __ldg(attend.k_norm + i + half);
      }
      turn_head(key, job.turns, position, lane);
    }
    float score = 0;
#pragma unroll
    for (int j = 0; j < kMostPairs; ++j)
      score = fmaf(query.a[j], key.a[j], fmaf(query.b[j], key.b[j], score));
    score = warp_sum(score);
    const float highest = fmaxf(most, score), factor = expf(most - highest), weight = expf(score - highest);
    total = fmaf(total, factor, weight);
    most = highest;
#pragma unroll
    for (int j = 0; j < kMostPairs; ++j) {
      sum.a[j] = fmaf(weight, value.a[j], sum.a[j] * factor);
      sum.b[j] = fmaf(weight, value.b[j], sum.b[j] * factor);
    }
  }
  float* out = attend.out + row * attend.out_stride + head * dims;
#pragma unroll
  for (int j = 0; j < kMostPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    out[i] = sum.a[j] / total;
    out[i + half] = sum.b[j] / total;
  }
}

__device__ inline void attend_floats(const AttendJob& job, const Step& state) {
  const int warps = static_cast<int>(gridDim.x) * kWarps;
  for (int i = thread_here() / 32 * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
       i < job.own.rows * job.own.heads; i += warps)
    attend_floats_head(job, state, i);
}

}  // namespace slip::backend::cuda
