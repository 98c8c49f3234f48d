// Steps of up to 4 rows.
#include "backend/cuda/kernels/step_kernel.h"

namespace slip::backend::cuda {
namespace {

__global__ void __launch_bounds__(kBlockThreads, 1)
    narrow_kernel(const __grid_constant__ StepArguments step) {
  run_step<1>(step);
}

}  // namespace

StepKernel narrow_step() {
  return narrow_kernel;
}

}  // namespace slip::backend::cuda
