// Steps of up to 8 rows that are too wide for shared memory at once.
#include "backend/cuda/kernels/step_kernel.h"

namespace slip::backend::cuda {
namespace {

__global__ void __launch_bounds__(kBlockThreads, 1) spans_kernel(const __grid_constant__ StepArguments step) {
  run_step<2, true>(step);
}

}  // namespace

StepKernel spans_step() {
  return spans_kernel;
}

}  // namespace slip::backend::cuda
