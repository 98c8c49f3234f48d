// Head norms, rotation and the cache: one warp per head and row. Lane l has the pairs l, l + 32, ... of a
// head. Bytes: the projections read and the cache written once.
#include "backend/cuda/kernels/head.h"
#include "backend/cuda/kernels/launch.h"

namespace slip::backend::cuda {
namespace {

constexpr int kThreads = 128;
__device__ void store_floats(const Head& head, float* to, int half, int lane) {
#pragma unroll
  for (int j = 0; j < kMostPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    to[i] = head.a[j];
    to[i + half] = head.b[j];
  }
}

__device__ void store_head(const Head& head, const CacheLayer& cache, std::byte* slot, int half, int lane) {
  if (cache.element_bytes == 4) return store_floats(head, reinterpret_cast<float*>(slot), half, lane);
  auto* to = reinterpret_cast<uint16_t*>(slot);
#pragma unroll
  for (int j = 0; j < kMostPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    const uint32_t both = pack_bf16(head.a[j], head.b[j]);
    to[i] = static_cast<uint16_t>(both);
    to[i + half] = static_cast<uint16_t>(both >> 16);
  }
}

__global__ void __launch_bounds__(kThreads) heads_kernel(const __grid_constant__ HeadsJob job) {
  grid_launch_next();
  grid_wait();
  const int lane = threadIdx.x % 32;
  const int parts = job.stores ? (job.cache.k_is_v ? 1 : 2) : 0;
  const int per_row = job.heads + parts * job.cache.kv_heads;
  const int index = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
  if (index >= job.rows * per_row) return;
  const int row = index / per_row, item = index % per_row;
  const int half = job.head_dim / 2;
  const int position = load_fresh(&job.step->row[row].position);

  if (item < job.heads) {
    float* query = job.query + row * job.query_stride + item * job.head_dim;
    Head head = read_head(query, half, lane);
    norm_head(head, job.q_norm, half, lane, job.epsilon);
    turn_head(head, job.turns, position, lane);
    return store_floats(head, query, half, lane);
  }
  const int kv_head = (item - job.heads) % job.cache.kv_heads, part = (item - job.heads) / job.cache.kv_heads;
  const float* from = (part == 0 ? job.key : job.value) + row * job.kv_stride + kv_head * job.head_dim;
  Head head = read_head(from, half, lane);
  if (job.cache.k_is_v) {
    norm_head(head, nullptr, half, lane, job.epsilon);
  } else if (part == 0) {
    norm_head(head, job.k_norm, half, lane, job.epsilon);
    turn_head(head, job.turns, position, lane);
  } else if (job.v_norm) {
    norm_head(head, nullptr, half, lane, job.epsilon);
  }
  const int group = load_fresh(&job.step->row[row].group);
  store_head(head, job.cache, cache_slot(job.cache, job.step, group, part, kv_head, position), half, lane);
}

}  // namespace

void finish_heads(Gpu& gpu, const HeadsJob& job) {
  const int parts = job.stores ? (job.cache.k_is_v ? 1 : 2) : 0;
  const int items = job.rows * (job.heads + parts * job.cache.kv_heads);
  if (items == 0) return;
  constexpr int kPerBlock = kThreads / 32;
  launch(gpu, {.blocks = (items + kPerBlock - 1) / kPerBlock, .threads = kThreads}, heads_kernel, job);
}

}  // namespace slip::backend::cuda
