// The few instructions the kernels use beyond plain C++, each behind a function, so that the same sources
// also compile for the emulator of tests/cuda/emulator, which runs them on a CPU without a GPU.
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

/// c += a * b, m16n8k16, bf16 or halves with float sums. Lane 4g + t holds of a: rows g, g + 8, g, g + 8 at
/// columns 2t, 2t, 2t + 8, 2t + 8; of b: rows 2t and 2t + 8 of column g; of c: columns 2t, 2t + 1 of rows g
/// and g + 8.
template <bool kHalves = false>
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (kHalves) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// The same with sums that start elsewhere: d = a * b + c.
template <bool kHalves = false>
__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                    const float (&c)[4]) {
  if constexpr (kHalves) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]),
          "f"(c[3]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%11,%12,%13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]),
          "f"(c[3]));
  }
}

/// Four 8 x 8 matrices of 16-bit values, transposed; lane 8i + r names row r of matrix i.
__device__ __forceinline__ void load_transposed(uint32_t (&out)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}

/// The same, as they lie.
__device__ __forceinline__ void load_matrices(uint32_t (&out)[4], const void* row) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ std::byte* shared_memory() {
  extern __shared__ __align__(128) unsigned char slip_shared[];
  return reinterpret_cast<std::byte*>(slip_shared);
}

/// threadIdx.x, asked for anew: what is derived from it is worked out where it is needed, not before all
/// phases of a step, to wait in local memory.
__device__ __forceinline__ int thread_here() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  __builtin_assume(thread >= 0 && thread < 1024);  // so that divisions are shifts
  return thread;
}

/// blockIdx.x, in the same way.
__device__ __forceinline__ int block_here() {
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  __builtin_assume(block >= 0);
  return block;
}

/// Counts up in shared memory and returns what was there.
__device__ __forceinline__ int take_places(int* counter, int count) {
  return atomicAdd(counter, count);
}

/// Brings a line to the second-level cache, for whoever reads it later.
__device__ __forceinline__ void prefetch(const void* line) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

__device__ __forceinline__ long long clock_now() {
  return clock64();
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

__device__ __forceinline__ int shuffle(int value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
__device__ __forceinline__ float shuffle(float value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

/// A value that is the same on all lanes of a warp, so that the compiler knows it and branches on it without
/// care for lanes that might go elsewhere. By a shuffle, which takes half as long as a reduction.
__device__ __forceinline__ int uniform(int value) {
  return __shfl_sync(0xffffffffu, value, 0);
}

/// A bit for every lane of the warp.
__device__ __forceinline__ uint32_t ballot(bool value) {
  return __ballot_sync(0xffffffffu, value);
}
__device__ __forceinline__ int bit_count(uint32_t bits) {
  return __popc(bits);
}

/// The lowest of bits that are not all zero.
__device__ __forceinline__ int first_bit(uint32_t bits) {
  return __ffs(static_cast<int>(bits)) - 1;
}

/// Over a warp, the same on every lane.
__device__ __forceinline__ int warp_sum(int value) {
  return __reduce_add_sync(0xffffffffu, value);
}
__device__ __forceinline__ int warp_max(int value) {
  return __reduce_max_sync(0xffffffffu, value);
}
__device__ __forceinline__ uint32_t warp_max(uint32_t value) {
  return __reduce_max_sync(0xffffffffu, value);
}
__device__ __forceinline__ uint32_t warp_or(uint32_t bits) {
  return __reduce_or_sync(0xffffffffu, bits);
}
/// The largest rank and the lowest id that has it.
__device__ __forceinline__ void best_of_ranks(uint32_t& rank, int& id) {
  const uint32_t best = __reduce_max_sync(0xffffffffu, rank);
  id = __reduce_min_sync(0xffffffffu, rank == best ? id : 0x7fffffff);
  rank = best;
}

/// Within some units in the last place, and the same in all kernels.
__device__ __forceinline__ float inverse_root(float x) {
  return rsqrtf(x);
}
__device__ __forceinline__ float quick_quotient(float x, float y) {
  return __fdividef(x, y);
}
/// Of whole numbers, to be put right.
__device__ __forceinline__ float rough_quotient(int x, int y) {
  float quotient;
  asm("div.approx.ftz.f32 %0, %1, %2;"
      : "=f"(quotient)
      : "f"(static_cast<float>(x)), "f"(static_cast<float>(y)));
  return quotient;
}

/// Two floats rounded to bf16, `low` in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
/// The same as halves, and back.
__device__ __forceinline__ uint32_t pack_halves(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ __forceinline__ float2 unpack_halves(uint32_t packed) {
  float2 two;
  asm("{.reg .f16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
      : "=f"(two.x), "=f"(two.y)
      : "r"(packed));
  return two;
}
/// Bytes of two words, 0 to 3 of a and 4 to 7 of b, by the hexadecimal digits of `which`.
__device__ __forceinline__ uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t which) {
  return __byte_perm(a, b, which);
}

#endif  // SLIP_CUDA_EMULATED

/// A structure of whole words of 16 bytes, by as many loads; a plain copy may go byte by byte.
template <typename T>
__device__ __forceinline__ T load_words(const T* from) {
  static_assert(sizeof(T) % 16 == 0 && alignof(T) == 16);
  struct alignas(16) Words {
    uint4 words[sizeof(T) / 16];
  } all;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 16); ++i)
    all.words[i] = reinterpret_cast<const uint4*>(from)[i];
  return __builtin_bit_cast(T, all);
}
template <typename T>
__device__ __forceinline__ void store_words(T* to, const T& from) {
  static_assert(sizeof(T) % 16 == 0 && alignof(T) == 16);
  struct alignas(16) Words {
    uint4 words[sizeof(T) / 16];
  };
  const Words all = __builtin_bit_cast(Words, from);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / 16); ++i) reinterpret_cast<uint4*>(to)[i] = all.words[i];
}

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
/// Of 1, 2 or 4 values of a lane, the sum over the warp of one of them, in the order of warp_sum(): lane l
/// has that of value l / (32 / kCount). Fewer shuffles than one sum after another.
template <int kCount>
__device__ __forceinline__ float warp_sum_of(const float (&values)[kCount]) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  float left[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) left[i] = values[i];
  const int lane = thread_here() % 32;
  int mask = 16;
#pragma unroll
  for (int count = kCount / 2; count > 0; count /= 2, mask /= 2) {
    const bool upper = (lane & mask) != 0;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float kept = upper ? left[count + i] : left[i], given = upper ? left[i] : left[count + i];
      left[i] = kept + shuffle_xor(given, mask);
    }
  }
#pragma unroll
  for (; mask > 0; mask /= 2) left[0] += shuffle_xor(left[0], mask);
  return left[0];
}
__device__ __forceinline__ float warp_max(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = fmaxf(value, shuffle_xor(value, mask));
  return value;
}
/// The same in one go, as a whole number that ascends with the float; if some are NaN, so may the result be.
__device__ __forceinline__ float warp_highest(float value) {
  const auto ordered = [](int bits) { return bits ^ (bits >> 31 & 0x7fffffff); };
  return __uint_as_float(
      static_cast<uint32_t>(ordered(warp_max(ordered(static_cast<int>(__float_as_uint(value)))))));
}

/// floor(a / b) for 0 <= a < 2^21 and 0 < b: fewer instructions than what divides any two numbers.
__device__ __forceinline__ int quotient(int a, int b) {
  const int guess = static_cast<int>(rough_quotient(a, b));
  const int left = a - guess * b;  // the guess may be off by one
  return guess + (left >= b ? 1 : 0) - (left < 0 ? 1 : 0);
}

}  // namespace slip::backend::cuda
