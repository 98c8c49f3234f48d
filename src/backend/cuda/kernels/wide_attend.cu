// Starting the attention of wide passes (wide_attend.h), and what comes before it: heads.
#include "backend/cuda/kernels/wide_attend.h"

#include <string>
#include <type_traits>

#include "backend/cuda/kernels/launch.h"

namespace slip::backend::cuda {
namespace {

template <int kDim, bool kOne>
__global__ void __launch_bounds__(WideTileOf<kDim, kOne>::kThreads, 1)
    wide_attend(const __grid_constant__ WideAttend job) {
  WideAttention<kDim, kOne>(job).run();
}

/// Calls `with` with a head size.
template <typename With>
void pick(int head_dim, const With& with) {
  switch (head_dim) {
    case 16: return with(std::integral_constant<int, 16>{});
    case 32: return with(std::integral_constant<int, 32>{});
    case 64: return with(std::integral_constant<int, 64>{});
    case 128: return with(std::integral_constant<int, 128>{});
    case 256: return with(std::integral_constant<int, 256>{});
    case 512: return with(std::integral_constant<int, 512>{});
    default: break;
  }
  fail_gpu("the CUDA kernels have no heads of size " + std::to_string(head_dim) + "; use --device cpu");
}

template <int kDim, bool kOne>
void start_attend(Gpu& gpu, const WideAttend& job) {
  using W = WideTileOf<kDim, kOne>;
  const auto bytes = static_cast<size_t>(wide_attend_plan<kDim, kOne>(job.job.own.turns.pairs).end);
  if (bytes > gpu.info().shared_bytes)
    fail_gpu("this GPU has too little shared memory for the heads of this model; use --device cpu");
  allow_shared(wide_attend<kDim, kOne>, gpu.info().shared_bytes);
  launch(gpu, {.blocks = job.units, .threads = W::kThreads, .shared_bytes = bytes}, wide_attend<kDim, kOne>,
         job);
}

/// One warp per head and row: see finish_head().
__global__ void __launch_bounds__(kWideThreads) wide_heads(const __grid_constant__ WideHeads wide) {
  const HeadsJob& job = wide.job;
  const int lane = static_cast<int>(threadIdx.x) % 32, half = job.head_dim / 2;
  const int parts = job.stores ? (job.cache.k_is_v ? 1 : 2) : 0;
  const int per_row = job.heads + parts * job.cache.kv_heads;
  const int index = static_cast<int>(blockIdx.x) * (kWideThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  const int row = index / per_row, item = index % per_row;
  if (row >= wide.rows.rows) return;
  const StepRow& step = wide.rows.row[row];
  if (item < job.heads) {
    float* query = job.query + row * job.query_stride + item * job.head_dim;
    Head head = read_head(query, half, lane);
    norm_head(head, job.q_norm, half, lane, job.epsilon);
    turn_head(head, job.turns, step.position, lane);
    return store_floats(head, query, half, lane);
  }
  const int kv_head = (item - job.heads) % job.cache.kv_heads, part = (item - job.heads) / job.cache.kv_heads;
  const Head head = new_head(job, row, step.position, kv_head, part, lane);
  store_head(head, job.cache,
             cache_slot(job.cache, wide.rows.group[step.group], job.step, part, kv_head, step.position), half,
             lane);
}

}  // namespace

int wide_attend_queries(int head_dim) {
  int queries = 0;
  pick(head_dim, [&](auto dim) { queries = WideTileOf<dim(), false>::kQueriesPerBlock; });
  return queries;
}

void start(Gpu& gpu, const WideHeads& job) {
  const int parts = job.job.stores ? (job.job.cache.k_is_v ? 1 : 2) : 0;
  const int warps = job.rows.rows * (job.job.heads + parts * job.job.cache.kv_heads);
  constexpr int kEach = kWideThreads / 32;
  if (warps > 0)
    launch(gpu, {.blocks = (warps + kEach - 1) / kEach, .threads = kWideThreads}, wide_heads, job);
}

void start(Gpu& gpu, const WideAttend& job) {
  const CacheLayer& cache = job.job.own.cache;
  pick(cache.head_dim, [&](auto dim) {
    if (cache.k_is_v) return start_attend<dim(), true>(gpu, job);
    start_attend<dim(), false>(gpu, job);
  });
}

}  // namespace slip::backend::cuda
