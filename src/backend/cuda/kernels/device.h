// The few instructions the kernels use beyond plain C++, each behind a function, so that the same sources
// also compile for the emulator of tests/cuda/emulator, which runs them on a CPU without a GPU. A kernel
// starts with prefetching what no earlier kernel writes, then calls grid_wait(): launches overlap their
// predecessors (programmatic dependent launch), and nothing written by one may be read or overwritten before
// that call.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef SLIP_CUDA_EMULATED
#include "cuda/emulator/emulator.h"
#else
#include <cuda_runtime.h>
#endif

namespace slip::backend::cuda {

#ifndef SLIP_CUDA_EMULATED

/// c += a * b, m16n8k16, bf16 with float sums. Lane 4g + t holds of a: rows g, g + 8, g, g + 8 at columns 2t,
/// 2t, 2t + 8, 2t + 8; of b: rows 2t and 2t + 8 of column g; of c: columns 2t, 2t + 1 of rows g and g + 8.
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8 x 8 matrices of 16-bit values, transposed; lane 8i + r names row r of matrix i.
__device__ __forceinline__ void load_transposed(uint32_t (&out)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}

/// 16 bytes from global to shared memory, around the first-level cache.
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}
__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until all but the latest `kLeft` groups of this thread are there.
template <int kLeft>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

__device__ __forceinline__ void grid_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// The next kernel may start, as far as there is room; it still waits for this one in its grid_wait().
__device__ __forceinline__ void grid_launch_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Loads past the first-level cache: what an earlier kernel wrote may be stale there.
template <typename T>
__device__ __forceinline__ T load_fresh(const T* from) {
  return __ldcg(from);
}
template <typename T>
__device__ __forceinline__ T* load_fresh(T* const* from) {
  return reinterpret_cast<T*>(__ldcg(reinterpret_cast<const unsigned long long*>(from)));
}

__device__ __forceinline__ float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
__device__ __forceinline__ int shuffle_xor(int value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}

/// Two floats rounded to bf16, `low` in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
/// a * b + c on pairs of bf16.
__device__ __forceinline__ uint32_t fma_bf16(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t out;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
}

__device__ __forceinline__ std::byte* shared_memory() {
  extern __shared__ __align__(128) unsigned char slip_shared[];
  return reinterpret_cast<std::byte*>(slip_shared);
}

#endif  // SLIP_CUDA_EMULATED

__device__ __forceinline__ float bf16_low(uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float bf16_high(uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

/// Two floats as two pairs of bf16 whose sum is the float to 16 bits.
struct Split {
  uint32_t high, low;
};
__device__ __forceinline__ Split split_bf16(float x, float y) {
  const uint32_t high = pack_bf16(x, y);
  return {high, pack_bf16(x - bf16_low(high), y - bf16_high(high))};
}

/// The same on every lane.
__device__ __forceinline__ float warp_sum(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = fmaxf(value, shuffle_xor(value, mask));
  return value;
}

}  // namespace slip::backend::cuda
