// Head norms, rotation and the cache: one warp per head and row. Lane l has the pairs l, l + 32, ... of a head.
// Bytes: the projections read and the cache written once.
#include "backend/cuda/kernels/cache_access.h"
#include "backend/cuda/kernels/launch.h"

namespace slip::backend::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMostPairs = 8;  // of a lane: heads of up to 512

struct Head {
  float a[kMostPairs], b[kMostPairs];  // x[i], x[i + half] for i = lane + 32 j
};

__device__ Head read_head(const float* from, int half, int lane) {
  Head head;
#pragma unroll
  for (int j = 0; j < kMostPairs; ++j) {
    const int i = lane + 32 * j;
    head.a[j] = i < half ? load_fresh(from + i) : 0;
    head.b[j] = i < half ? load_fresh(from + i + half) : 0;
  }
  return head;
}

__device__ void norm_head(Head& head, const float* weight, int half, int lane, float epsilon) {
  float squares = 0;
#pragma unroll
  for (int j = 0; j < kMostPairs; ++j)
    squares = fmaf(head.a[j], head.a[j], fmaf(head.b[j], head.b[j], squares));
  const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(2 * half) + epsilon);
#pragma unroll
  for (int j = 0; j < kMostPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    head.a[j] *= factor * (weight != nullptr ? __ldg(weight + i) : 1.0f);
    head.b[j] *= factor * (weight != nullptr ? __ldg(weight + i + half) : 1.0f);
  }
}

__device__ void turn_head(Head& head, const Turns& turns, int position, int lane) {
#pragma unroll
  for (int j = 0; j < kMostPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= turns.pairs) continue;
    const Turn turn = turn_at(turns, position, i);
    const float a = head.a[j], b = head.b[j];
    head.a[j] = a * turn.cosine - b * turn.sine;
    head.b[j] = b * turn.cosine + a * turn.sine;
  }
}

__device__ void store_head(const Head& head, std::byte* slot, int half, int lane) {
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
#pragma unroll
    for (int j = 0; j < kMostPairs; ++j) {
      const int i = lane + 32 * j;
      if (i >= half) continue;
      query[i] = head.a[j];
      query[i + half] = head.b[j];
    }
    return;
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
  store_head(head, cache_slot(job.cache, job.step, group, part, kv_head, position), half, lane);
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
