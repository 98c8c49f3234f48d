// Per-layer inputs after their projection: one warp per row and layer.
#pragma once

#include "backend/cuda/kernels/stage.h"
#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {

__device__ inline void mix_one_layer(const PerLayerJob& job, int index) {
  const int lane = thread_here() % 32;
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

__device__ inline void mix_per_layer(const PerLayerJob& job) {
  const int warps = static_cast<int>(gridDim.x) * kWarps;
  for (int i = thread_here() / 32 * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
       i < job.rows * job.layers; i += warps)
    mix_one_layer(job, i);
}

}  // namespace slip::backend::cuda
