// A GPU in plain C++, as far as the kernels of src/backend/cuda need one: blocks run one after another, the
// threads of a block are fibers that meet at barriers, shuffles and matrix products. Shared memory starts as
// NaN, asynchronous copies happen as late as they may, lanes that do not meet where they must abort the run.
// So a machine without a GPU can test what kernels compute, though not how they race. x86-64 only.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)
#define __grid_constant__

namespace slip::emulator {

struct Index {
  int x = 0, y = 0, z = 0;
};
Index thread_index();
Index block_index();
Index grid_size();
Index block_size();

void sync_threads();
void sync_warp();
int shuffle_xor(int value, int mask);
void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void load_transposed(uint32_t (&out)[4], const void* row);
void copy_async(void* shared, const void* global);
void copy_commit();
void copy_wait(int left);
std::byte* shared_memory();

/// Runs `thread` for every thread of every block.
void run_grid(int blocks, int threads, size_t shared_bytes, const std::function<void()>& thread);

uint16_t round_bf16(float value);

}  // namespace slip::emulator

#define threadIdx (::slip::emulator::thread_index())
#define blockIdx (::slip::emulator::block_index())
#define gridDim (::slip::emulator::grid_size())
#define blockDim (::slip::emulator::block_size())
#define __syncthreads ::slip::emulator::sync_threads
#define __syncwarp ::slip::emulator::sync_warp

struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  return {x, y, z, w};
}
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
template <typename T>
T __ldg(const T* from) {
  return *from;
}
template <typename T>
T min(T a, T b) {
  return a < b ? a : b;
}
template <typename T>
T max(T a, T b) {
  return a > b ? a : b;
}

namespace slip::backend::cuda {

using emulator::copy_async;
using emulator::copy_commit;
using emulator::load_transposed;
using emulator::mma;
using emulator::shared_memory;
using emulator::shuffle_xor;

template <int kLeft>
void copy_wait() {
  emulator::copy_wait(kLeft);
}
inline void grid_wait() {}
inline void grid_launch_next() {}
template <typename T>
T load_fresh(const T* from) {
  return *from;
}
inline float shuffle_xor(float value, int mask) {
  int bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = emulator::shuffle_xor(bits, mask);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t pack_bf16(float low, float high) {
  return static_cast<uint32_t>(emulator::round_bf16(low)) | static_cast<uint32_t>(emulator::round_bf16(high))
                                                                << 16;
}
inline uint32_t fma_bf16(uint32_t a, uint32_t b, uint32_t c) {
  const auto part = [](uint32_t pair, int half) {
    return __uint_as_float(half == 0 ? pair << 16 : pair & 0xffff0000u);
  };
  return pack_bf16(part(a, 0) * part(b, 0) + part(c, 0), part(a, 1) * part(b, 1) + part(c, 1));
}

}  // namespace slip::backend::cuda
