// Per-layer inputs after their projection: one warp per row and layer.
#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads) per_layer_kernel(const __grid_constant__ PerLayerJob job) {
  grid_launch_next();
  grid_wait();
  const int index = blockIdx.x * (kThreads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (index >= job.rows * job.layers) return;
  const int row = index / job.layers, first = index % job.layers * job.dim;
  float* mixed = job.mixed + row * job.stride + first;
  const float* table = job.table + row * job.table_stride + first;
  float squares = 0;
  for (int i = lane; i < job.dim; i += 32) {
    const float x = load_fresh(mixed + i) * job.scale;
    squares = fmaf(x, x, squares);
  }
  const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(job.dim) + job.epsilon);
  for (int i = lane; i < job.dim; i += 32) {
    const float x = load_fresh(mixed + i) * job.scale * factor * __ldg(job.norm + i);
    mixed[i] = fmaf(load_fresh(table + i), job.table_scale, x) * 0.7071067811865476f;
  }
}

}  // namespace

void mix_per_layer(Gpu& gpu, const PerLayerJob& job) {
  constexpr int kPerBlock = kThreads / 32;
  launch(gpu, {.blocks = (job.rows * job.layers + kPerBlock - 1) / kPerBlock, .threads = kThreads},
         per_layer_kernel, job);
}

}  // namespace slip::backend::cuda
