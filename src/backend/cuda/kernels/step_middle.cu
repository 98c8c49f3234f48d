// Steps of up to 8 rows.
#include "backend/cuda/kernels/step_kernel.h"

namespace slip::backend::cuda {
namespace {

__global__ void __launch_bounds__(kBlockThreads, 1)
    middle_kernel(const __grid_constant__ StepArguments step) {
  run_step<2>(step);
}

}  // namespace

StepKernel middle_step() {
  return middle_kernel;
}

}  // namespace slip::backend::cuda
