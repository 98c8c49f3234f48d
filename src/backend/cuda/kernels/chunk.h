// One chunk of a packed matrix (packed_matrix.h) times the staged rows, by one warp. Codes enter the tensor
// cores as whole numbers, which bf16 holds exactly up to 256; scale and bias are applied to the sums of a
// group:
//   sum over a group of (code * scale + bias) * x = scale * sum(code * x) + bias * sum(x).
#pragma once

#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

template <Format kFormat, int kGroups, int kSubtiles>
struct ChunkLayout {
  static constexpr int kCodeBytes = kFormat == Format::kAffine4 ? 512 : 1024;  // of a subtile
  static constexpr int kBytes = kSubtiles * (kCodeBytes + kGroups * 64);
  static constexpr int kSteps = kFormat == Format::kBf16 ? 2 : 4;  // of 16 columns
};

/// Two bf16 that are codes of 4 bits plus 128: the lower bits of 128 are worth 1.
__device__ __forceinline__ uint32_t nibbles(uint32_t word) {
  return (word & 0x000f000fu) | 0x43004300u;
}

template <Format kFormat>
struct Codes;

template <>
struct Codes<Format::kBf16> {
  uint4 words[2];
  __device__ void load(const std::byte* from, int lane) {
    words[0] = *reinterpret_cast<const uint4*>(from + lane * 16);
    words[1] = *reinterpret_cast<const uint4*>(from + 512 + lane * 16);
  }
  __device__ void operand(int step, uint32_t (&a)[4]) const {
    a[0] = words[step].x;
    a[1] = words[step].y;
    a[2] = words[step].z;
    a[3] = words[step].w;
  }
  static constexpr float kOffset = 0;
};

template <>
struct Codes<Format::kAffine8> {
  uint4 words[2];
  __device__ void load(const std::byte* from, int lane) {
    words[0] = *reinterpret_cast<const uint4*>(from + lane * 16);
    words[1] = *reinterpret_cast<const uint4*>(from + 512 + lane * 16);
  }
  /// The high nibble h becomes 2048 + 16 h (the lower bits of 2048 are worth 16), less 2176 is 16 h - 128,
  /// plus the low nibble's 128 + l is the code; all of it exact.
  __device__ static uint32_t bytes(uint32_t word) {
    const uint32_t high = ((word >> 4) & 0x000f000fu) | 0x45004500u;
    constexpr uint32_t kOne = 0x3f803f80u, kMinus2176 = 0xc508c508u;
    return fma_bf16(fma_bf16(high, kOne, kMinus2176), kOne, nibbles(word));
  }
  __device__ void operand(int step, uint32_t (&a)[4]) const {
    const uint4& two = words[step / 2];
    const uint32_t first = step % 2 == 0 ? two.x : two.z, second = step % 2 == 0 ? two.y : two.w;
    a[0] = bytes(first);
    a[1] = bytes(first >> 8);
    a[2] = bytes(second);
    a[3] = bytes(second >> 8);
  }
  static constexpr float kOffset = 0;
};

template <>
struct Codes<Format::kAffine4> {
  uint4 words;
  __device__ void load(const std::byte* from, int lane) {
    words = *reinterpret_cast<const uint4*>(from + lane * 16);
  }
  __device__ void operand(int step, uint32_t (&a)[4]) const {
    const uint32_t word = step == 0 ? words.x : step == 1 ? words.y : step == 2 ? words.z : words.w;
    a[0] = nibbles(word);
    a[1] = nibbles(word >> 4);
    a[2] = nibbles(word >> 8);
    a[3] = nibbles(word >> 12);
  }
  static constexpr float kOffset = 128;
};

template <Format kFormat, int kGroups, int kSubtiles, int kTiles>
__device__ __forceinline__ void multiply_chunk(const std::byte* chunk, int index, const Stage& stage,
                                               int count, float (&sums)[kSubtiles][kTiles][4]) {
  using Layout = ChunkLayout<kFormat, kGroups, kSubtiles>;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  Codes<kFormat> codes[kSubtiles];
#pragma unroll
  for (int s = 0; s < kSubtiles; ++s) codes[s].load(chunk + s * Layout::kCodeBytes, lane);

  constexpr int kLoops = kGroups == 0 ? 1 : kGroups;
  constexpr int kStepsPerGroup = Layout::kSteps / kLoops;
#pragma unroll
  for (int group = 0; group < kLoops; ++group) {
    float raw[kSubtiles][kTiles][4] = {};
#pragma unroll
    for (int i = 0; i < kStepsPerGroup; ++i) {
      const int step = group * kStepsPerGroup + i;
      uint4 x[kTiles];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int n = tile * 8 + g;
        x[tile] = make_uint4(0, 0, 0, 0);
        if (n < count) {
          const int64_t place = static_cast<int64_t>(index * Layout::kSteps + step) * count + n;
          x[tile] = *reinterpret_cast<const uint4*>(stage.rows + (place * 4 + t) * 16);
        }
      }
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) {
        uint32_t a[4];
        codes[s].operand(step, a);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          float(&to)[4] = kGroups == 0 ? sums[s][tile] : raw[s][tile];
          mma(to, a, x[tile].x, x[tile].y);
          mma(to, a, x[tile].z, x[tile].w);
        }
      }
    }
    if constexpr (kGroups > 0) {
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) {
        const auto* scales = reinterpret_cast<const uint2*>(chunk + kSubtiles * Layout::kCodeBytes +
                                                            (s * kGroups + group) * 64) +
                             g;
        const float scale0 = bf16_low(scales->x), scale1 = bf16_low(scales->y);
        const float bias0 = fmaf(-Codes<kFormat>::kOffset, scale0, bf16_high(scales->x));
        const float bias1 = fmaf(-Codes<kFormat>::kOffset, scale1, bf16_high(scales->y));
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const float* x = stage.sums + (index * kGroups + group) * 8 * kTiles + tile * 8 + 2 * t;
          float(&to)[4] = sums[s][tile];
          const float(&from)[4] = raw[s][tile];
          to[0] = fmaf(scale0, from[0], fmaf(bias0, x[0], to[0]));
          to[1] = fmaf(scale0, from[1], fmaf(bias0, x[1], to[1]));
          to[2] = fmaf(scale1, from[2], fmaf(bias1, x[0], to[2]));
          to[3] = fmaf(scale1, from[3], fmaf(bias1, x[1], to[3]));
        }
      }
    }
  }
}

}  // namespace slip::backend::cuda
