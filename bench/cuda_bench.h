// What the parts of cuda_products share.
#pragma once

#include <algorithm>

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/pack.h"

namespace slip::backend::cuda {

struct Case {
  const char* name;
  int rows, cols;
  bool pair;
  int slices = 1, experts = 1;
};

inline PackedMatrix shape(const Case& one, Format format) {
  return plan({.format = format,
               .groups = format == Format::kBf16 ? 0 : 1,
               .rows = one.rows,
               .cols = one.cols,
               .pair = one.pair,
               .slices = one.slices,
               .count = one.experts});
}

/// The attention of a layer.
struct Heads {
  const char* name;
  int dim, heads, kv_heads, pairs, window;  // window 0: a full layer
  bool k_is_v;

  size_t page_bytes() const { return static_cast<size_t>((k_is_v ? 1 : 2) * kv_heads * 256 * dim * 2); }
  /// `noise` stands for norms and rotations. Where queries, keys and the cache are is left open.
  HeadsJob job(const Step* step, int rows, const float* noise) const {
    return {.step = step,
            .rows = rows,
            .heads = heads,
            .epsilon = 1e-6f,
            .cache = {.sliding = window > 0, .k_is_v = k_is_v, .kv_heads = kv_heads, .head_dim = dim},
            .head_dim = dim,
            .turns = {noise, noise + (1 << 18), pairs},
            .q_norm = noise,
            .k_norm = noise,
            .query_stride = heads * dim,
            .kv_stride = kv_heads * dim};
  }
};

/// Seconds per phase of a list, the best of some runs.
inline double best_of(Gpu& gpu, StepList& list, int skipped, const Step* step = nullptr) {
  double best = 1;
  for (int i = 0; i < 5; ++i) {
    list.start(gpu, step, true, skipped);
    gpu.finish();
    best = std::min(best, gpu.seconds_between(0, 1));
  }
  return best / static_cast<double>(list.phases().size());
}

void time_attend(Gpu& gpu, const DeviceMemory& memory, const DeviceMemory& floats);
void time_wide(Gpu& gpu, const DeviceMemory& weights);
void time_wide_attend(Gpu& gpu, const DeviceMemory& cache, const DeviceMemory& floats);

}  // namespace slip::backend::cuda
