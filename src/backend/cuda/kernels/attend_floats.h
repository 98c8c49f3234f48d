// Attention over a cache of floats: one warp per row and query head, key by key. For comparing with
// references that keep full precision; nothing here is meant to be fast.
#pragma once

#include "backend/cuda/kernels/heads.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

/// All of a lane's dimensions of a head, by four and place in it.
template <typename With>
__device__ __forceinline__ void for_all(const With& with) {
#pragma unroll
  for (int j = 0; j < kMostFours; ++j) {
#pragma unroll
    for (int e = 0; e < 4; ++e) with(j, e);
  }
}

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
      scale_head(key, norm_weights<kMostFours>(attend.k_norm, half, lane), 1);
      turn_head(key, job.turns, position, lane);
    }
    float score = 0;
    for_all([&](int j, int e) {
      score = fmaf(query.a[j].x[e], key.a[j].x[e], fmaf(query.b[j].x[e], key.b[j].x[e], score));
    });
    score = warp_sum(score);
    const float highest = fmaxf(most, score), factor = expf(most - highest), weight = expf(score - highest);
    total = fmaf(total, factor, weight);
    most = highest;
    for_all([&](int j, int e) {
      sum.a[j].x[e] = fmaf(weight, value.a[j].x[e], sum.a[j].x[e] * factor);
      sum.b[j].x[e] = fmaf(weight, value.b[j].x[e], sum.b[j].x[e] * factor);
    });
  }
  for_all([&](int j, int e) {
    sum.a[j].x[e] = sum.a[j].x[e] / total;
    sum.b[j].x[e] = sum.b[j].x[e] / total;
  });
  store_floats(sum, attend.out + row * attend.out_stride + head * dims, half, lane);
}

__device__ inline void attend_floats(const AttendJob& job, const Step& state) {
  const int warps = static_cast<int>(gridDim.x) * kWarps;
  for (int i = thread_here() / 32 * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
       i < job.own.rows * job.own.heads; i += warps)
    attend_floats_head(job, state, i);
}

}  // namespace slip::backend::cuda
