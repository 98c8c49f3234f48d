// Steps of up to 16 rows.
#include "backend/cuda/kernels/step_kernel.h"

namespace slip::backend::cuda {
namespace {

__global__ void __launch_bounds__(kBlockThreads, 1) wide_kernel(const __grid_constant__ StepArguments step) {
  run_step<4>(step);
}

}  // namespace

StepKernel wide_step() {
  return wide_kernel;
}

}  // namespace slip::backend::cuda
