// Attention over a cache of floats: one warp per row and query head, key by key. For comparing with
// references that keep full precision; nothing here is meant to be fast.
#include "backend/cuda/kernels/head.h"
#include "backend/cuda/kernels/launch.h"

namespace slip::backend::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) attend_floats_kernel(const __grid_constant__ AttendJob job) {
  grid_launch_next();
  grid_wait();
  const int index = blockIdx.x * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (index >= job.rows * job.heads) return;
  const int row = index / job.heads, head = index % job.heads, kind = job.sliding ? 0 : 1;
  const int dims = job.cache.head_dim, half = dims / 2;
  const int kv_head = head / (job.heads / job.cache.kv_heads);
  const StepRow& step = job.step->row[row];
  const int group = load_fresh(&step.group), first = load_fresh(&step.first[kind]);
  const int end = load_fresh(&step.end[kind]);
  const Head query = read_head(job.query + row * job.query_stride + head * dims, half, lane);
  Head sum = {};
  float most = -INFINITY, total = 0;
  for (int position = first; position < end; ++position) {
    const auto part = [&](int which) {
      return read_head(
          reinterpret_cast<const float*>(cache_slot(job.cache, job.step, group, which, kv_head, position)),
          half, lane);
    };
    Head key = part(0);
    const Head value = job.cache.k_is_v ? key : part(1);
    if (job.cache.k_is_v) {
#pragma unroll
      for (int j = 0; j < kMostPairs; ++j) {
        const int i = lane + 32 * j;
        if (i >= half) continue;
        key.a[j] *= __ldg(job.k_norm + i);
        key.b[j] *= __ldg(job.k_norm + i + half);
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
  float* out = job.out + row * job.out_stride + head * dims;
#pragma unroll
  for (int j = 0; j < kMostPairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    out[i] = sum.a[j] / total;
    out[i + half] = sum.b[j] / total;
  }
}

}  // namespace

void attend_floats(Gpu& gpu, const AttendJob& job) {
  constexpr int kPerBlock = kThreads / 32;
  launch(gpu, {.blocks = (job.rows * job.heads + kPerBlock - 1) / kPerBlock, .threads = kThreads},
         attend_floats_kernel, job);
}

}  // namespace slip::backend::cuda
