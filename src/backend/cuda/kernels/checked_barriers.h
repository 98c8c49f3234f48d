// Barriers of some threads for compute-sanitizer's racecheck, in builds with SLIP_RACECHECK. The tool does
// not follow bar.arrive, nor groups of threads that met each other more often than other groups did, and
// reports hazards behind every __syncthreads() after them. It does follow words in shared memory at which
// each thread arrives for itself; these are slower.
#pragma once

#include "backend/cuda/kernels/device.h"

namespace slip::backend::cuda {

__device__ inline uint32_t checked_barrier(int number) {
  __shared__ uint64_t words[16];
  return static_cast<uint32_t>(__cvta_generic_to_shared(words + number));
}

__device__ inline void set_up_barrier(int number, int threads) {
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(checked_barrier(number)), "r"(threads)
                 : "memory");
}

/// Returns what to wait for.
__device__ inline uint64_t arrive_some(int number, int) {
  uint64_t state;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];"
               : "=l"(state)
               : "r"(checked_barrier(number))
               : "memory");
  return state;
}

__device__ inline void sync_some(int number, int threads) {
  const uint64_t state = arrive_some(number, threads);
  for (uint32_t passed = 0; passed == 0;) {
    asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.shared.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(passed)
                 : "r"(checked_barrier(number)), "l"(state)
                 : "memory");
  }
  __syncwarp();
}

}  // namespace slip::backend::cuda
