// Head norms, rotation and the cache, as a phase: one warp per head and row. Bytes: the projections read and
// the cache written once.
#pragma once

#include "backend/cuda/kernels/head.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

template <int kFours>
__device__ __forceinline__ void store_floats(const Head<kFours>& head, float* to, int half, int lane) {
  const auto store = [&](int at, const Four& four) {
    *reinterpret_cast<float4*>(to + at) = make_float4(four.x[0], four.x[1], four.x[2], four.x[3]);
  };
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    const int i = 4 * lane + 128 * j;
    if (i >= half) continue;
    store(i, head.a[j]);
    store(i + half, head.b[j]);
  }
}

template <int kFours>
__device__ __forceinline__ void store_bf16(const Head<kFours>& head, std::byte* to, int half, int lane) {
#pragma unroll
  for (int j = 0; j < kFours; ++j) {
    const int i = 4 * lane + 128 * j;
    if (i >= half) continue;
    *reinterpret_cast<uint2*>(to + 2 * i) = packed_four(head.a[j]);
    *reinterpret_cast<uint2*>(to + 2 * (i + half)) = packed_four(head.b[j]);
  }
}

template <int kFours>
__device__ __forceinline__ void store_head(const Head<kFours>& head, const CacheLayer& cache, std::byte* slot,
                                           int half, int lane) {
  if (cache.element_bytes == 4) return store_floats(head, reinterpret_cast<float*>(slot), half, lane);
  store_bf16(head, slot, half, lane);
}

/// A key (part 0) or value of one row, as the cache keeps it.
__device__ __forceinline__ Head<> new_head(const HeadsJob& job, int row, int position, int kv_head, int part,
                                           int lane) {
  const int half = job.head_dim / 2;
  const float* from = (part == 0 ? job.key : job.value) + row * job.kv_stride + kv_head * job.head_dim;
  Head<> head = read_head(from, half, lane);
  if (job.cache.k_is_v) {
    norm_head(head, nullptr, half, lane, job.epsilon);
  } else if (part == 0) {
    norm_and_turn(head, job.k_norm, job.turns, position, half, lane, job.epsilon);
  } else if (job.v_norm) {
    norm_head(head, nullptr, half, lane, job.epsilon);
  }
  return head;
}

__device__ inline void finish_head(const HeadsJob& job, const Step& step, int per_row, int index) {
  const int lane = thread_here() % 32;
  const int row = index / per_row, item = index % per_row;
  const int half = job.head_dim / 2;
  const int position = step.row[row].position;

  if (item < job.heads) {
    float* query = job.query + row * job.query_stride + item * job.head_dim;
    Head<> head = read_head(query, half, lane);
    norm_and_turn(head, job.q_norm, job.turns, position, half, lane, job.epsilon);
    return store_floats(head, query, half, lane);
  }
  const int kv_head = (item - job.heads) % job.cache.kv_heads, part = (item - job.heads) / job.cache.kv_heads;
  const Head<> head = new_head(job, row, position, kv_head, part, lane);
  const RowGroup& group = step.group[step.row[row].group];
  store_head(head, job.cache, cache_slot(job.cache, group, job.step, part, kv_head, position), half, lane);
}

__device__ inline void finish_heads(const HeadsJob& job, const Step& step) {
  const int parts = job.stores ? (job.cache.k_is_v ? 1 : 2) : 0;
  const int per_row = job.heads + parts * job.cache.kv_heads;
  const int warps = static_cast<int>(gridDim.x) * kWarps;
  for (int i = thread_here() / 32 * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
       i < job.rows * per_row; i += warps)
    finish_head(job, step, per_row, i);
}

}  // namespace slip::backend::cuda
