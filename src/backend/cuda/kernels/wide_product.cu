// Starting wide products (wide_product.h).
#include "backend/cuda/kernels/wide_product.h"

#include "backend/cuda/kernels/launch.h"

namespace slip::backend::cuda {
namespace {

template <Format kFormat, int kGroups, int kSubtiles>
__global__ void __launch_bounds__(kWideThreads, 1) wide_product(const __grid_constant__ WideProduct job) {
  run_wide<kFormat, kGroups, kSubtiles>(job);
}

/// Calls `with` with the kernel for a matrix and its WideShape.
template <int kSubtiles, typename With>
void pick(Format format, int groups, const With& with) {
  const auto use = [&]<Format kFormat, int kGroups>() {
    with(wide_product<kFormat, kGroups, kSubtiles>, WideShape<kFormat, kGroups, kSubtiles>{});
  };
  with_format(format, groups, use);
}
template <typename With>
void pick(const PackedMatrix& matrix, const With& with) {
  matrix.subtiles == 2 ? pick<2>(matrix.format, matrix.groups, with)
                       : pick<1>(matrix.format, matrix.groups, with);
}

}  // namespace

void prepare_wide(Gpu& gpu) {
  prepare_wide_groups(gpu);
  PackedMatrix matrix;
  for (const Format format : kFormats) {
    for (const int groups : {1, 2}) {
      for (const int subtiles : {1, 2}) {
        matrix.format = format;
        matrix.groups = groups;
        matrix.subtiles = subtiles;
        pick(matrix, [&](auto* kernel, auto shape) {
          if (shape.kSharedBytes > static_cast<int>(gpu.info().shared_bytes))
            fail_gpu("this GPU has too little shared memory for the CUDA kernels; use --device cpu");
          allow_shared(kernel, shape.kSharedBytes);
        });
      }
    }
  }
}

void start(Gpu& gpu, const WideProduct& job) {
  if (job.workers == WideWorkers::kGroups) return start_wide_groups(gpu, job);
  pick(job.matrix, [&](auto* kernel, auto shape) {
    const int tall = (job.matrix.tiles + shape.kTiles - 1) / shape.kTiles;
    const int wide = job.matrix.count > 1 ? job.choices.most_tiles
                                          : (job.rows + kWideTokens - 1) / kWideTokens * job.matrix.slices;
    launch(gpu,
           {.blocks = tall * wide,
            .threads = kWideThreads,
            .shared_bytes = static_cast<size_t>(shape.kSharedBytes)},
           kernel, job);
  });
}

}  // namespace slip::backend::cuda
