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
};

#ifdef SLIP_CUDA_EMULATED

template <typename... Parameters, typename... Arguments>
void launch(Gpu&, const Shape& shape, void (*kernel)(Parameters...), const Arguments&... arguments) {
  emulator::run_grid(shape.blocks, shape.threads, shape.shared_bytes, shape.together,
                     [&] { kernel(arguments...); });
}
template <typename Kernel>
void allow_shared(Kernel*, size_t) {}

#else

template <typename... Parameters, typename... Arguments>
void launch(Gpu& gpu, const Shape& shape, void (*kernel)(Parameters...), const Arguments&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(gpu.stream());
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  config.attrs = &attribute;
  config.numAttrs = shape.together ? 1 : 0;
  check_gpu(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...), "the start of a kernel");
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
