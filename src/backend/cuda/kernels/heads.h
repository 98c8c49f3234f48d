// Head norms, rotation and the cache, as a phase: one warp per head and row. Lane l has the pairs l, l + 32,
// ... of a head. Bytes: the projections read and the cache written once.
#pragma once

#include "backend/cuda/kernels/head.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

template <int kPairs>
__device__ __forceinline__ void store_floats(const Head<kPairs>& head, float* to, int half, int lane) {
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    to[i] = head.a[j];
    to[i + half] = head.b[j];
  }
}

template <int kPairs>
__device__ __forceinline__ void store_head(const Head<kPairs>& head, const CacheLayer& cache, std::byte* slot,
                                           int half, int lane) {
  if (cache.element_bytes == 4) return store_floats(head, reinterpret_cast<float*>(slot), half, lane);
  auto* to = reinterpret_cast<uint16_t*>(slot);
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    const uint32_t both = pack_bf16(head.a[j], head.b[j]);
    to[i] = static_cast<uint16_t>(both);
    to[i + half] = static_cast<uint16_t>(both >> 16);
  }
}

/// A key (part 0) or value of one row, as the cache keeps it.
template <int kPairs = kMostPairs>
__device__ __forceinline__ Head<kPairs> new_head(const HeadsJob& job, int row, int position, int kv_head,
                                                 int part, int lane) {
  const int half = job.head_dim / 2;
  const float* from = (part == 0 ? job.key : job.value) + row * job.kv_stride + kv_head * job.head_dim;
  Head<kPairs> head = read_head<kPairs>(from, half, lane);
  if (job.cache.k_is_v) {
    norm_head(head, nullptr, half, lane, job.epsilon);
  } else if (part == 0) {
    norm_head(head, job.k_norm, half, lane, job.epsilon);
    turn_head(head, job.turns, position, lane);
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
    norm_head(head, job.q_norm, half, lane, job.epsilon);
    turn_head(head, job.turns, position, lane);
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
