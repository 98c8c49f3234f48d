// The mixture of experts of wide passes: every row's choices, the lists of who chose whom, and the sum of
// what the experts gave. Pairs of a row and a choice are listed by expert, in the order of the rows.
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/per_layer.h"
#include "backend/cuda/kernels/wide_job.h"

namespace slip::backend::cuda {
namespace {

/// One warp per row. Where scores are no numbers there is no best, and some expert takes its place.
__global__ void __launch_bounds__(kWideThreads) wide_choose(const __grid_constant__ WideRoute job) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(blockIdx.x) * (kWideThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  if (row >= job.rows) return;
  const ExpertChoices choices = choose_experts(job.scores + row * job.stride, job.experts, job.chosen);
#pragma unroll
  for (int i = 0; i < ExpertChoices::kKept; ++i) {
    const int slot = lane + 32 * i;
    if (slot < job.chosen)
      job.choices.experts[row * job.chosen + slot] = min(choices.expert[i], job.experts - 1);
  }
  leave_shares(choices, job.experts, job.chosen, job.expert_scale, job.choices.shares + row * job.chosen);
}

/// Thread i's consecutive share of all pairs.
struct PairRange {
  int first, end;
};
__device__ __forceinline__ PairRange pairs_of(const WideRoute& job) {
  const int pairs = job.rows * job.chosen, each = (pairs + kWideThreads - 1) / kWideThreads;
  const int first = min(pairs, static_cast<int>(threadIdx.x) * each);
  return {first, min(pairs, first + each)};
}
__device__ __forceinline__ int count_own(const WideRoute& job, PairRange range, int expert) {
  int count = 0;
  for (int i = range.first; i < range.end; ++i) count += job.choices.experts[i] == expert ? 1 : 0;
  return count;
}

/// One block per expert.
__global__ void __launch_bounds__(kWideThreads) wide_count(const __grid_constant__ WideRoute job) {
  auto* counts = shared_at<int>(0);
  counts[threadIdx.x] = count_own(job, pairs_of(job), static_cast<int>(blockIdx.x));
  __syncthreads();
  if (threadIdx.x >= 32) return;
  int sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < kWideThreads; i += 32) sum += counts[i];
  for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (threadIdx.x == 0) job.choices.counts[blockIdx.x] = sum;
}

/// One block per expert: its pairs and tiles, behind those of the experts before it.
__global__ void __launch_bounds__(kWideThreads) wide_list(const __grid_constant__ WideRoute job) {
  auto* counts = shared_at<int>(0);
  const WideChoices& to = job.choices;
  const int expert = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const PairRange range = pairs_of(job);
  counts[thread] = count_own(job, range, expert);
  __syncthreads();
  const auto tiles_of = [](int count) { return (count + kWideTokens - 1) / kWideTokens; };
  int first = 0, tile = 0;
  for (int e = 0; e < expert; ++e) {
    first += to.counts[e];
    tile += tiles_of(to.counts[e]);
  }
  const int count = to.counts[expert];
  if (thread < tiles_of(count))
    to.tiles[tile + thread] = {expert, first + thread * kWideTokens,
                               min(kWideTokens, count - thread * kWideTokens)};
  if (thread == 0 && expert == job.experts - 1) *to.tile_count = tile + tiles_of(count);
  int at = first;
  for (int i = 0; i < thread; ++i) at += counts[i];
  for (int i = range.first; i < range.end; ++i) {
    if (to.experts[i] == expert) to.pairs[at++] = i;
  }
}

__global__ void __launch_bounds__(kBlockThreads) wide_combine(const __grid_constant__ CombineJob job) {
  combine_row(job, static_cast<int>(blockIdx.x), 0);
}

__global__ void __launch_bounds__(kBlockThreads) wide_per_layer(const __grid_constant__ PerLayerJob job) {
  mix_per_layer(job);
}

}  // namespace

void start(Gpu& gpu, const WideRoute& job) {
  constexpr int kRows = kWideThreads / 32;
  launch(gpu, {.blocks = (job.rows + kRows - 1) / kRows, .threads = kWideThreads}, wide_choose, job);
  const Shape by_expert{
      .blocks = job.experts, .threads = kWideThreads, .shared_bytes = kWideThreads * sizeof(int)};
  launch(gpu, by_expert, wide_count, job);
  launch(gpu, by_expert, wide_list, job);
}

void start(Gpu& gpu, const CombineJob& job) {
  launch(gpu, {.blocks = job.rows, .threads = kBlockThreads, .shared_bytes = 2 * kWarps * sizeof(float)},
         wide_combine, job);
}

void start(Gpu& gpu, const PerLayerJob& job) {
  const int warps = job.rows * job.layers;
  launch(gpu, {.blocks = (warps + kWarps - 1) / kWarps, .threads = kBlockThreads}, wide_per_layer, job);
}

}  // namespace slip::backend::cuda
