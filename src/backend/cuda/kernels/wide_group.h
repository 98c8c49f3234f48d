// The tensor cores by warpgroups: four warps, of which each has 16 rows in registers as mma() takes them,
// multiply with the same columns in shared memory. Hopper's tensor cores reach their full rate only so; other
// GPUs and the emulator do the same by mma(). Sums are those of mma(), which a test compares.
// Columns lie as [tile of 8 columns][column][64 bf16 or halves], 1024 bytes per tile, where the 16 bytes i of
// a column n are at i ^ n % 8, so that neither who writes columns nor the tensor cores meet at the same
// banks; tiles start at multiples of 1024 bytes of the machine's addresses (group_base()).
#pragma once

#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// kAdds: d += a * b, else d = a * b. One for every number of column tiles, the numbers of registers written
/// out as the assembler wants them: SLIP_GROUP_MMA(tiles, columns, sums, operands, sums of the compiler's).
// clang-format off
#define SLIP_GROUP_MMA(kTiles, columns, sums, operands, ...)                                                 \
  template <bool kAdds, bool kHalves>                                                                        \
  __device__ __forceinline__ void group_mma_async(float (&d)[kTiles][4], const uint32_t (&a)[4],             \
                                                  uint64_t b) {                                              \
    if constexpr (kHalves) {                                                                                 \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.f16.f16 {" sums "}, " operands       \
                   : __VA_ARGS__                                                                             \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdds ? 1 : 0));                \
    } else {                                                                                                 \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.bf16.bf16 {" sums "}, " operands     \
                   : __VA_ARGS__                                                                             \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdds ? 1 : 0));                \
    }                                                                                                        \
  }
// clang-format on
#define SLIP_TILE(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define SLIP_TILES2(i) SLIP_TILE(i), SLIP_TILE(i + 1)
#define SLIP_TILES4(i) SLIP_TILES2(i), SLIP_TILES2(i + 2)
#define SLIP_NAMES8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define SLIP_NAMES16 SLIP_NAMES8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define SLIP_NAMES24 SLIP_NAMES16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define SLIP_NAMES32 SLIP_NAMES24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define SLIP_NAMES48 SLIP_NAMES32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define SLIP_NAMES64 SLIP_NAMES48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
SLIP_GROUP_MMA(2, "16", SLIP_NAMES8, "{%8,%9,%10,%11}, %12, %13, 1, 1, 0;", SLIP_TILES2(0))
SLIP_GROUP_MMA(4, "32", SLIP_NAMES16, "{%16,%17,%18,%19}, %20, %21, 1, 1, 0;", SLIP_TILES4(0))
SLIP_GROUP_MMA(6, "48", SLIP_NAMES24, "{%24,%25,%26,%27}, %28, %29, 1, 1, 0;", SLIP_TILES4(0), SLIP_TILES2(4))
SLIP_GROUP_MMA(8, "64", SLIP_NAMES32, "{%32,%33,%34,%35}, %36, %37, 1, 1, 0;", SLIP_TILES4(0), SLIP_TILES4(4))
SLIP_GROUP_MMA(12, "96", SLIP_NAMES48, "{%48,%49,%50,%51}, %52, %53, 1, 1, 0;", SLIP_TILES4(0),
               SLIP_TILES4(4), SLIP_TILES4(8))
SLIP_GROUP_MMA(16, "128", SLIP_NAMES64, "{%64,%65,%66,%67}, %68, %69, 1, 1, 0;", SLIP_TILES4(0),
               SLIP_TILES4(4), SLIP_TILES4(8), SLIP_TILES4(12))
#undef SLIP_GROUP_MMA
#undef SLIP_TILE
#undef SLIP_TILES2
#undef SLIP_TILES4
#undef SLIP_NAMES8
#undef SLIP_NAMES16
#undef SLIP_NAMES24
#undef SLIP_NAMES32
#undef SLIP_NAMES48
#undef SLIP_NAMES64

/// What threads have written to shared memory is there for group_mma() after the next barrier.
__device__ __forceinline__ void group_publish() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// The compiler leaves what it does with these sums before or after this line.
template <int kTiles>
__device__ __forceinline__ void group_pin(float (&d)[kTiles][4]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
    asm volatile("" : "+f"(d[tile][0]), "+f"(d[tile][1]), "+f"(d[tile][2]), "+f"(d[tile][3])::"memory");
}
/// Before the first of several group_mma() with these sums.
template <int kTiles>
__device__ __forceinline__ void group_begin(float (&d)[kTiles][4]) {
  group_pin(d);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// The same where the first of them does not add to the sums, which are not set yet.
template <int kTiles>
__device__ __forceinline__ void group_begin_at_zero(float (&d)[kTiles][4]) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
    asm volatile("" : "=f"(d[tile][0]), "=f"(d[tile][1]), "=f"(d[tile][2]), "=f"(d[tile][3])::"memory");
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// After one or some of them.
__device__ __forceinline__ void group_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits for all that was committed but the latest.
__device__ __forceinline__ void group_wait_but_one() {
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
/// Sums are there.
template <int kTiles>
__device__ __forceinline__ void group_end(float (&d)[kTiles][4]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  group_pin(d);
}
/// d += a * b, or, where it does not add, d = a * b; b's rows 16 * step .. in the tiles at `place` in shared
/// memory; by whole warpgroups, between group_begin() and group_commit().
template <bool kAdds = true, bool kHalves = false, int kTiles>
__device__ __forceinline__ void group_mma(float (&d)[kTiles][4], const uint32_t (&a)[4], int place,
                                          int step) {
  constexpr uint64_t kTile = 1024, kSwizzled128 = 1;
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory())) + place + step * 32;
  group_mma_async<kAdds, kHalves>(d, a,
                                  static_cast<uint64_t>((address & 0x3ffff) >> 4) | uint64_t{1} << 16 |
                                      kTile >> 4 << 32 | kSwizzled128 << 62);
}
/// The first place in shared memory where tiles may start.
__device__ __forceinline__ int group_base() {
  return static_cast<int>(0u - static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory())) & 1023u);
}
/// Registers per thread from here on, of a whole warpgroup: more than it started with, or fewer.
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

#else

__device__ __forceinline__ void group_publish() {}
template <int kTiles>
__device__ __forceinline__ void group_begin(float (&)[kTiles][4]) {}
template <int kTiles>
__device__ __forceinline__ void group_begin_at_zero(float (&)[kTiles][4]) {}
__device__ __forceinline__ void group_commit() {}
__device__ __forceinline__ void group_wait_but_one() {}
template <int kTiles>
__device__ __forceinline__ void group_end(float (&)[kTiles][4]) {}
template <bool kAdds = true, bool kHalves = false, int kTiles>
__device__ __forceinline__ void group_mma(float (&d)[kTiles][4], const uint32_t (&a)[4], int place,
                                          int step) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4;
  const auto* words = shared_at<const uint32_t>(place) + g * 32 + lane % 4;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const uint32_t b0 = words[tile * 256 + ((2 * step) ^ g) * 4],
                   b1 = words[tile * 256 + ((2 * step + 1) ^ g) * 4];
    if (kAdds) {
      mma<kHalves>(d[tile], a, b0, b1);
    } else {
      mma<kHalves>(d[tile], a, b0, b1, {0, 0, 0, 0});
    }
  }
}
__device__ __forceinline__ int group_base() {
  return 0;
}
template <int kCount>
__device__ __forceinline__ void take_registers() {}
template <int kCount>
__device__ __forceinline__ void leave_registers() {}

#endif

}  // namespace slip::backend::cuda
