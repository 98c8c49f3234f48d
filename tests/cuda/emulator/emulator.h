// A GPU in plain C++, as far as the kernels of src/backend/cuda need one: all
// threads of all blocks are fibers that meet at barriers, shuffles and matrix products. Shared memory starts
// as NaN, asynchronous copies happen as late as they may, lanes that do not meet where they must abort the
// run. So a machine without a GPU can test what kernels compute, though not how they race. x86-64 only.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "backend/cuda/kernels/watch.h"
#include "cuda/emulator/operands.h"

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
/// The running thread.
struct Place {
  int thread = 0, block = 0, blocks = 0, threads = 0;
  std::byte* shared = nullptr;
};
inline Place place;
inline Index thread_index() {
  return {place.thread, 0, 0};
}
inline Index block_index() {
  return {place.block, 0, 0};
}
inline Index grid_size() {
  return {place.blocks, 1, 1};
}
inline Index block_size() {
  return {place.threads, 1, 1};
}
inline std::byte* shared_memory() {
  return place.shared;
}
inline int lane_index() {
  return place.thread & 31;
}

void sync_threads();
void sync_warp();
void sync_some(int number, int threads);
void arrive_some(int number, int threads);
int shuffle_from(int value, int lane);
void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bool halves);
void load_transposed(uint32_t (&out)[4], const void* row);
void load_matrices(uint32_t (&out)[4], const void* row);
void copy_async(void* shared, const void* global);
void copy_async_or_zero(void* shared, const void* global, bool real);
void copy_commit();
void copy_wait(int left);
void arrival_init(uint64_t* arrival);
void copy_bulk(std::byte* shared, const std::byte* global, int bytes, uint64_t* arrival);
void copy_rows(std::byte* shared, int stride, const std::byte* global, int bytes, int rows,
               uint64_t* arrival);
template <int kMost>
void copy_bulk_rows(std::byte* shared, int stride, const std::byte* global, int bytes, int rows,
                    uint64_t* arrival) {
  copy_rows(shared, stride, global, bytes, rows, arrival);
}
inline void fence_bulk() {}
void wait_arrival(uint64_t* arrival, uint32_t parity);
void grid_await();
void gather_warp(bool waits);

/// Runs `thread` for every thread of every block, all blocks `together` or one after another.
void run_grid(int blocks, int threads, size_t shared_bytes, bool together,
              const std::function<void()>& thread);

}  // namespace slip::emulator

#define threadIdx (::slip::emulator::thread_index())
#define blockIdx (::slip::emulator::block_index())
#define gridDim (::slip::emulator::grid_size())
#define blockDim (::slip::emulator::block_size())
#define __syncthreads ::slip::emulator::sync_threads
#define __syncwarp ::slip::emulator::sync_warp

struct alignas(8) float2 {
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
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
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

using emulator::arrival_init;
using emulator::arrive_some;
using emulator::copy_async;
using emulator::copy_async_or_zero;
using emulator::copy_bulk;
using emulator::copy_bulk_rows;
using emulator::copy_commit;
using emulator::fence_bulk;
using emulator::load_matrices;
using emulator::load_transposed;
using emulator::shared_memory;
using emulator::sync_some;
using emulator::wait_arrival;
using Arrival = uint64_t;

inline void set_up_barrier(int, int) {}

template <bool kHalves = false>
inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulator::mma(c, a, b0, b1, kHalves);
}
template <bool kHalves = false>
inline void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, const float (&c)[4]) {
  for (int i = 0; i < 4; ++i) d[i] = c[i];
  mma<kHalves>(d, a, b0, b1);
}
inline void grid_arrive(uint32_t* counter) {
  ++*counter;
}
[[noreturn]] inline void give_up(Awaited, int) {
  std::abort();
}
inline int grid_await(const uint32_t* counter, uint32_t target) {
  while (static_cast<int>(*counter - target) < 0) emulator::grid_await();
  return 0;
}
inline void gathering_init(Arrival*, int) {}
inline void gather_warp(Arrival*, uint32_t, bool waits) {
  emulator::gather_warp(waits);
}
inline uint32_t count_finished(uint32_t* counter) {
  return (*counter)++;
}
inline void prefetch(const void*) {}
inline long long clock_now() {
  return 0;
}
inline uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t which) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i)
    out |= static_cast<uint32_t>(both >> (which >> (4 * i) & 7) * 8 & 0xff) << (8 * i);
  return out;
}

template <int kLeft>
void copy_wait() {
  emulator::copy_wait(kLeft);
}
template <typename T>
T load_fresh(const T* from) {
  return *from;
}
inline int shuffle_xor(int value, int mask) {
  return emulator::shuffle_from(value, emulator::lane_index() ^ mask);
}
inline int thread_here() {
  return static_cast<int>(threadIdx.x);
}

inline int block_here() {
  return static_cast<int>(blockIdx.x);
}
inline int shuffle(int value, int lane) {
  return emulator::shuffle_from(value, lane);
}
inline uint32_t ballot(bool value) {
  uint32_t bits = 0;
  for (int lane = 0; lane < 32; ++lane) bits |= static_cast<uint32_t>(shuffle(value ? 1 : 0, lane)) << lane;
  return bits;
}
inline int bit_count(uint32_t bits) {
  return std::popcount(bits);
}
inline int first_bit(uint32_t bits) {
  return std::countr_zero(bits);
}
inline float shuffle(float value, int lane) {
  int bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = emulator::shuffle_from(bits, lane);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline float shuffle_xor(float value, int mask) {
  return shuffle(value, emulator::lane_index() ^ mask);
}
inline float inverse_root(float x) {
  return 1.0f / std::sqrt(x);
}
inline float quick_quotient(float x, float y) {
  return x / y;
}
inline int uniform(int value) {
  return value;
}
inline float rough_quotient(int x, int y) {
  return static_cast<float>(x) / static_cast<float>(y);
}
inline int take_places(int* counter, int count) {
  const int before = *counter;
  *counter += count;
  return before;
}
inline int warp_sum(int value) {
  for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}
inline int warp_max(int value) {
  for (int mask = 16; mask > 0; mask /= 2) value = max(value, shuffle_xor(value, mask));
  return value;
}
inline uint32_t warp_max(uint32_t value) {
  for (int mask = 16; mask > 0; mask /= 2)
    value = std::max(value, static_cast<uint32_t>(shuffle_xor(static_cast<int>(value), mask)));
  return value;
}
inline uint32_t warp_or(uint32_t bits) {
  for (int mask = 16; mask > 0; mask /= 2)
    bits |= static_cast<uint32_t>(shuffle_xor(static_cast<int>(bits), mask));
  return bits;
}
inline void best_of_ranks(uint32_t& rank, int& id) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const auto other = static_cast<uint32_t>(shuffle_xor(static_cast<int>(rank), mask));
    const int other_id = shuffle_xor(id, mask);
    if (other > rank || (other == rank && other_id < id)) {
      rank = other;
      id = other_id;
    }
  }
}
inline uint32_t pack_bf16(float low, float high) {
  return static_cast<uint32_t>(emulator::round_bf16(low)) | static_cast<uint32_t>(emulator::round_bf16(high))
                                                                << 16;
}
inline uint32_t pack_halves(float low, float high) {
  return static_cast<uint32_t>(emulator::round_half(low)) | static_cast<uint32_t>(emulator::round_half(high))
                                                                << 16;
}
inline float2 unpack_halves(uint32_t packed) {
  return {emulator::half_to_float(static_cast<uint16_t>(packed)),
          emulator::half_to_float(static_cast<uint16_t>(packed >> 16))};
}
}  // namespace slip::backend::cuda
