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
