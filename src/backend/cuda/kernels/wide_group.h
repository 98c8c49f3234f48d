// The tensor cores by warpgroups: four warps, of which each has 16 rows in registers as mma() takes them,
// multiply with the same columns in shared memory. Hopper's tensor cores reach their full rate only so; other
// GPUs and the emulator do the same by mma(). Sums are those of mma(), which a test compares.
// Columns lie as [tile of 8 columns][column][64 bf16], 1024 bytes per tile, where the 16 bytes i of a column
// n are at i ^ n % 8, so that neither who writes columns nor the tensor cores meet at the same banks; tiles
// start at multiples of 1024 bytes of the machine's addresses (group_base()).
#pragma once

#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// kAdds: d += a * b, else d = a * b.
template <bool kAdds>
__device__ __forceinline__ void group_mma_async(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
      "}, {%16,%17,%18,%19}, %20, %21, 1, 1, 0;"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
        "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdds ? 1 : 0));
}
template <bool kAdds>
__device__ __forceinline__ void group_mma_async(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
      "}, {%32,%33,%34,%35}, %36, %37, 1, 1, 0;"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
        "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
        "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
        "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
        "+f"(d[7][2]), "+f"(d[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdds ? 1 : 0));
}
template <bool kAdds>
__device__ __forceinline__ void group_mma_async(float (&d)[12][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
      "}, {%48,%49,%50,%51}, %52, %53, 1, 1, 0;"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
        "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
        "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
        "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
        "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]),
        "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]),
        "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdds ? 1 : 0));
}
template <bool kAdds>
__device__ __forceinline__ void group_mma_async(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "}, {%64,%65,%66,%67}, %68, %69, 1, 1, 0;"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]),
        "+f"(d[1][2]), "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]),
        "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
        "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), "+f"(d[7][0]), "+f"(d[7][1]),
        "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]),
        "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]),
        "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]),
        "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]),
        "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]),
        "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdds ? 1 : 0));
}

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
template <bool kAdds = true, int kTiles>
__device__ __forceinline__ void group_mma(float (&d)[kTiles][4], const uint32_t (&a)[4], int place,
                                          int step) {
  constexpr uint64_t kTile = 1024, kSwizzled128 = 1;
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory())) + place + step * 32;
  group_mma_async<kAdds>(d, a,
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
template <bool kAdds = true, int kTiles>
__device__ __forceinline__ void group_mma(float (&d)[kTiles][4], const uint32_t (&a)[4], int place,
                                          int step) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4;
  const auto* words = shared_at<const uint32_t>(place) + g * 32 + lane % 4;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const uint32_t b0 = words[tile * 256 + ((2 * step) ^ g) * 4],
                   b1 = words[tile * 256 + ((2 * step + 1) ^ g) * 4];
    if (kAdds) {
      mma(d[tile], a, b0, b1);
    } else {
      mma(d[tile], a, b0, b1, {0, 0, 0, 0});
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
