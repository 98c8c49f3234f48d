// One way to start a kernel: on the stream of a Gpu.
#pragma once

#include "backend/cuda/gpu.h"
#include "backend/cuda/kernels/device.h"

namespace slip::backend::cuda {

struct Shape {
  int blocks = 1;
  int threads = 0;
  size_t shared_bytes = 0;
  bool together = false;  // all blocks at once: they wait for one another
  bool twins = false;     // blocks 2 i and 2 i + 1 see each other's shared memory
};

#ifdef SLIP_CUDA_EMULATED

template <typename... Parameters, typename... Arguments>
void launch(Gpu&, const Shape& shape, void (*kernel)(Parameters...), const Arguments&... arguments) {
  emulator::run_grid(shape.blocks, shape.threads, shape.shared_bytes, shape.together,
                     [&] { kernel(arguments...); });
}
template <typename Kernel>
void allow_shared(Kernel*, size_t) {}
template <typename Kernel>
bool can_launch(const Gpu&, const Shape&, Kernel*) {
  return true;
}

#else

/// A shape as the runtime takes it.
struct LaunchConfig {
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute attributes[2] = {};

  LaunchConfig(const Gpu& gpu, const Shape& shape) {
    config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
    config.blockDim = dim3(static_cast<unsigned>(shape.threads));
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = static_cast<cudaStream_t>(gpu.stream());
    config.attrs = attributes;
    if (shape.together) {
      cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = cudaLaunchAttributeCooperative;
      attribute.val.cooperative = 1;
    }
    if (shape.twins) {
      cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = 2;
      attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    }
  }
  LaunchConfig(const LaunchConfig&) = delete;  // its config points into it
};

template <typename... Parameters, typename... Arguments>
void launch(Gpu& gpu, const Shape& shape, void (*kernel)(Parameters...), const Arguments&... arguments) {
  const LaunchConfig with(gpu, shape);
  check_gpu(cudaLaunchKernelEx(&with.config, kernel, Parameters(arguments)...), "the start of a kernel");
}

/// Whether all blocks of a shape with twins find room at once.
template <typename Kernel>
bool can_launch(const Gpu& gpu, const Shape& shape, Kernel* kernel) {
  const LaunchConfig with(gpu, shape);
  int pairs = 0;
  const bool known = cudaOccupancyMaxActiveClusters(&pairs, kernel, &with.config) == cudaSuccess;
  cudaGetLastError();
  return known && 2 * pairs >= shape.blocks;
}

/// Once per kernel that takes more than 48 KiB.
template <typename Kernel>
void allow_shared(Kernel* kernel, size_t bytes) {
  check_gpu(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
      "the shared memory of a kernel");
}

#endif

}  // namespace slip::backend::cuda
