// One piece of a packed matrix (packed_matrix.h) times the staged rows (stage.h), by one warp. Four bits of
// codes enter the tensor cores as the lower bits of 128, which are worth 1, or of 2048, which are worth 16:
// whole numbers with an offset that bf16 holds exactly. Offset and bias cost nothing per code:
//   sum over a group of (code * scale + bias) * x
//     = scale * (-offset * sum(x) + sum((code + offset) * x)) + bias * sum(x),
// where the sums start at -offset * sum(x) and the biases of a piece are an mma of their own.
// About 42 instructions per 16 x 64 codes of 4 bits at up to four rows, half of them unpacking.
#pragma once

#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

/// Two codes of 4 bits as bf16 with an offset: 0x4300 = 128, 0x4500 = 2048.
template <uint32_t kMagic>
__device__ __forceinline__ uint32_t nibbles(uint32_t word) {
  return mask_or(word, 0x000f000fu, kMagic);
}
template <uint32_t kMagic>
__device__ __forceinline__ void unpack(uint32_t word, uint32_t (&a)[4]) {
  a[0] = nibbles<kMagic>(word);
  a[1] = nibbles<kMagic>(word >> 4);
  a[2] = nibbles<kMagic>(word >> 8);
  a[3] = nibbles<kMagic>(word >> 12);
}
__device__ __forceinline__ uint32_t word_of(const uint4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

template <Format kFormat, int kGroups, int kSubtiles, int kTiles>
struct Piece {
  using Sums = float[kSubtiles][kTiles][4];
  static constexpr int kPieceGroups = kGroups * (kFormat == Format::kAffine4 ? 2 : 1);
  static constexpr int kHeaderBytes = kPieceGroups * 64;  // of a subtile
  static constexpr int kBytes = kSubtiles * (1024 + kHeaderBytes);

  /// The piece at `place` in shared memory is number `index` of its tile. `column`: the lane whose operands
  /// of the rows this one takes.
  __device__ static __forceinline__ void multiply(int lane, int column, int place, int index,
                                                  const Stage& stage, Sums& sums) {
    if constexpr (kFormat == Format::kBf16) {
      multiply_floats(lane, column, place, index, stage, sums);
    } else {
      constexpr int kBlocks = kFormat == Format::kAffine4 ? 2 : 1;  // of 64 columns
      uint4 scales[kSubtiles][(kPieceGroups + 1) / 2];
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) load_scales(lane, place + s * kHeaderBytes, scales[s]);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block)
        multiply_block(lane, column, place, index * kBlocks + block, block, stage, scales, sums);
      add_biases(lane, index, stage, scales, sums);
    }
  }

 private:
  __device__ static __forceinline__ void multiply_floats(int lane, int column, int place, int index,
                                                         const Stage& stage, Sums& sums) {
    uint4 x[kTiles];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      x[tile] = shared_at<const uint4>(stage.rows)[(index * kTiles + tile) * 32 + column];
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) {
        const uint4 words = shared_at<const uint4>(place)[(s * 2 + step) * 32 + lane];
        const uint32_t a[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
          mma(sums[s][tile], a, step == 0 ? x[tile].x : x[tile].z, step == 0 ? x[tile].y : x[tile].w);
      }
    }
  }

  /// Scales and biases of rows g and g + 8, two groups to a word of four.
  __device__ static __forceinline__ void load_scales(int lane, int place,
                                                     uint4 (&scales)[(kPieceGroups + 1) / 2]) {
    const int g = lane / 4;
    if constexpr (kPieceGroups == 1) {
      const uint2 two = shared_at<const uint2>(place)[g];
      scales[0] = make_uint4(two.x, two.y, 0, 0);
    } else {
#pragma unroll
      for (int i = 0; i < kPieceGroups / 2; ++i)
        scales[i] = shared_at<const uint4>(place)[g * (kPieceGroups / 2) + i];
    }
  }
  __device__ static __forceinline__ uint32_t scale_word(const uint4 (&scales)[(kPieceGroups + 1) / 2],
                                                        int group) {
    return group % 2 == 0 ? scales[group / 2].x : scales[group / 2].z;
  }
  __device__ static __forceinline__ uint32_t bias_word(const uint4 (&scales)[(kPieceGroups + 1) / 2],
                                                       int group) {
    return group % 2 == 0 ? scales[group / 2].y : scales[group / 2].w;
  }

  /// 64 columns: number `number` of the rows, `block` of the piece.
  __device__ static __forceinline__ void multiply_block(
      int lane, int column, int place, int number, int block, const Stage& stage,
      const uint4 (&scales)[kSubtiles][(kPieceGroups + 1) / 2], Sums& sums) {
    constexpr int kPlanes = kFormat == Format::kAffine8 ? 2 : 1;
    uint4 codes[kSubtiles][kPlanes];
#pragma unroll
    for (int s = 0; s < kSubtiles; ++s) {
#pragma unroll
      for (int plane = 0; plane < kPlanes; ++plane) {
        codes[s][plane] = shared_at<const uint4>(
            place + kSubtiles * kHeaderBytes)[((block * kSubtiles + s) * kPlanes + plane) * 32 + lane];
      }
    }
    constexpr int kSteps = 4 / kGroups;  // of a group
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      float raw[kSubtiles][kTiles][4];
      uint4 x[kSteps / 2][kTiles];
#pragma unroll
      for (int i = 0; i < kSteps / 2; ++i) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const int half = number * 2 + group * kSteps / 2 + i;
          x[i][tile] = shared_at<const uint4>(stage.rows)[(half * kTiles + tile) * 32 + column];
        }
      }
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        const int step = group * kSteps + i;
#pragma unroll
        for (int s = 0; s < kSubtiles; ++s) {
          uint32_t a[4];
          unpack<0x43004300u>(word_of(codes[s][0], step), a);
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            const uint4& two = x[i / 2][tile];
            const uint32_t b0 = i % 2 == 0 ? two.x : two.z, b1 = i % 2 == 0 ? two.y : two.w;
            if (i == 0) {
              const float4 from = shared_at<const float4>(
                  stage.starts)[((number * kGroups + group) * kTiles + tile) * 4 + lane % 4];
              const float start[4] = {from.x, from.y, from.z, from.w};
              mma(raw[s][tile], a, b0, b1, start);
            } else {
              mma(raw[s][tile], a, b0, b1);
            }
          }
          if constexpr (kPlanes == 2) {
            unpack<0x45004500u>(word_of(codes[s][1], step), a);
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) {
              const uint4& two = x[i / 2][tile];
              mma(raw[s][tile], a, i % 2 == 0 ? two.x : two.z, i % 2 == 0 ? two.y : two.w);
            }
          }
        }
      }
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) {
        const uint32_t both = scale_word(scales[s], block * kGroups + group);
        const float scale0 = bf16_low(both), scale1 = bf16_high(both);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          float(&to)[4] = sums[s][tile];
          const float(&from)[4] = raw[s][tile];
          to[0] = fmaf(scale0, from[0], to[0]);
          to[1] = fmaf(scale0, from[1], to[1]);
          to[2] = fmaf(scale1, from[2], to[2]);
          to[3] = fmaf(scale1, from[3], to[3]);
        }
      }
    }
  }

  __device__ static __forceinline__ void add_biases(int lane, int index, const Stage& stage,
                                                    const uint4 (&scales)[kSubtiles][(kPieceGroups + 1) / 2],
                                                    Sums& sums) {
    uint32_t x[kTiles];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      x[tile] = lane < 16 ? shared_at<const uint32_t>(stage.biases)[(index * kTiles + tile) * 16 + lane] : 0;
#pragma unroll
    for (int s = 0; s < kSubtiles; ++s) {
      uint32_t one = bias_word(scales[s], 0), two = one;
      if constexpr (kPieceGroups == 2) two = bias_word(scales[s], 1);
      if constexpr (kPieceGroups == 4) {
        // Lanes t = 0, 2 have groups 0 and 1, lanes 1, 3 groups 2 and 3.
        const bool odd = lane % 2 != 0;
        one = odd ? bias_word(scales[s], 2) : bias_word(scales[s], 0);
        two = odd ? bias_word(scales[s], 3) : bias_word(scales[s], 1);
      }
      const uint32_t a[4] = {pick_bytes(one, two, 0x5410), pick_bytes(one, two, 0x7632), 0, 0};
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) mma(sums[s][tile], a, x[tile], 0);
    }
  }
};

}  // namespace slip::backend::cuda
