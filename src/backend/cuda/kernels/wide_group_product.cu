// Starting wide products by warpgroups (wide_group_product.h).
#include "backend/cuda/kernels/wide_group_product.h"

#include <algorithm>

#include "backend/cuda/kernels/launch.h"

namespace slip::backend::cuda {
namespace {

template <Format kFormat, int kGroups, int kSubtiles>
__global__ void __launch_bounds__(kGroupBlockThreads, 1)
    group_product(const __grid_constant__ WideProduct job, int units) {
  const int base = group_base();
  for (int number = 1; number <= kMultipliers; ++number) set_up_barrier(number, 2 * kGroupThreads);
  __syncthreads();
  if (threadIdx.x < 2 * kGroupThreads) {
    take_registers<kMultiplierRegisters>();
    multiply_units<kFormat, kGroups, kSubtiles>(job, units, base);
  } else {
    leave_registers<kCopierRegisters>();
    copy_units<WideShape<kFormat, kGroups, kSubtiles>>(job, units, base);
  }
}

/// Calls `with` with the kernel for a matrix and its WideShape.
template <int kSubtiles, typename With>
void pick(Format format, int groups, const With& with) {
  const auto use = [&]<Format kFormat, int kGroups>() {
    with(group_product<kFormat, kGroups, kSubtiles>, WideShape<kFormat, kGroups, kSubtiles>{});
  };
  with_format(format, groups, use);
}

}  // namespace

void prepare_wide_groups(Gpu& gpu) {
  for (const Format format : kFormats) {
    for (const int groups : {1, 2}) {
      const auto allow = [&](auto* kernel, auto shape) {
        constexpr int kBytes = GroupSlot<decltype(shape)>::kSharedBytes;
        if (kBytes > static_cast<int>(gpu.info().shared_bytes))
          fail_gpu("this GPU has too little shared memory for the CUDA kernels; use --device cpu");
        allow_shared(kernel, kBytes);
      };
      pick<1>(format, groups, allow);
      pick<2>(format, groups, allow);
    }
  }
}

void start_wide_groups(Gpu& gpu, const WideProduct& job) {
  const auto with = [&](auto* kernel, auto shape) {
    const int tall = (job.matrix.tiles + shape.kTiles - 1) / shape.kTiles;
    const int wide = job.matrix.count > 1 ? job.choices.most_tiles
                                          : (job.rows + kWideTokens - 1) / kWideTokens * job.matrix.slices;
    launch(gpu,
           {.blocks = std::min(tall * wide, gpu.info().processors),
            .threads = kGroupBlockThreads,
            .shared_bytes = static_cast<size_t>(GroupSlot<decltype(shape)>::kSharedBytes)},
           kernel, job, tall * wide);
  };
  job.matrix.subtiles == 2 ? pick<2>(job.matrix.format, job.matrix.groups, with)
                           : pick<1>(job.matrix.format, job.matrix.groups, with);
}

}  // namespace slip::backend::cuda
