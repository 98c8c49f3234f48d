// One piece of a packed matrix (packed_matrix.h) times the staged rows (stage.h), by one warp. Codes enter
// the tensor cores as they are: as the lower bits of a bf16 or a half they are whole numbers times a small
// one (code_unit()), which rows and scales make up for. So nothing is added to them or taken off again, and
// four bits need one instruction, those of an upper byte one more for all of them. Of a group of columns
//   sum of (code * scale + bias) * x = scale * sum(code * x) + bias * sum(x),
// and the biases of a piece are an mma of their own, of bf16. Of halves, sum(code * x) is also multiplied
// with the power of two that the row has there.
#pragma once

#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

/// Eight codes of 4 bits as the 16-row operand of a step of 16 columns; those of rows 8 to 15 are
/// sixteenfold.
__device__ __forceinline__ void unpack_nibbles(uint32_t word, uint32_t (&a)[4]) {
  const uint32_t upper = word >> 8;
  a[0] = word & 0x000f000fu;
  a[1] = word & 0x00f000f0u;
  a[2] = upper & 0x000f000fu;
  a[3] = upper & 0x00f000f0u;
}
/// The same of 8 bits.
__device__ __forceinline__ void unpack_bytes(uint32_t one, uint32_t two, uint32_t (&a)[4]) {
  a[0] = pick_bytes(one, 0, 0x4240);
  a[1] = pick_bytes(one, 0, 0x4341);
  a[2] = pick_bytes(two, 0, 0x4240);
  a[3] = pick_bytes(two, 0, 0x4341);
}
__device__ __forceinline__ uint32_t word_of(const uint4& words, int i) {
  return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}
/// A lane's codes of 64 columns are so many words of 16 bytes.
template <Format kFormat>
inline constexpr int kCodeWords = is_eights(kFormat) ? 2 : 1;
/// Step `step` of four that lie in them.
template <Format kFormat>
__device__ __forceinline__ void unpack(const uint4* words, int step, uint32_t (&a)[4]) {
  if constexpr (is_fours(kFormat)) {
    unpack_nibbles(word_of(*words, step), a);
  } else {
    const uint4& two = words[step / 2];
    unpack_bytes(step % 2 == 0 ? two.x : two.z, step % 2 == 0 ? two.y : two.w, a);
  }
}

/// Where a lane finds the staged rows: its operands of the first piece, what the biases are multiplied with,
/// and of halves the powers of two of its two columns.
struct RowPlaces {
  int rows, biases, scales;
};

/// `kAllTiles`: of the kernel.
template <Format kFormat, int kGroups, int kSubtiles, int kAllTiles>
struct Piece {
  static constexpr bool kHalves = in_halves(kFormat);
  static constexpr int kTiles = column_tiles(kFormat, kAllTiles);
  using Sums = float[kSubtiles][kTiles][4];
  static constexpr int kPieceGroups = groups_of_piece(kFormat, kGroups);
  static constexpr int kHeaderBytes = kPieceGroups * 64;  // of a subtile
  static constexpr int kBytes = kSubtiles * (1024 + kHeaderBytes);
  static constexpr int kSumBytes = sum_bytes(kPieceGroups, rows_of_tile(kFormat));

  /// Of the first piece; `stage`: where the rows are.
  __device__ static __forceinline__ RowPlaces places_of(const Stage& stage, int rows_log, int lane) {
    // Columns that no row has repeat the first one's, which costs no more to read.
    constexpr int kRows = rows_of_tile(kFormat);
    const int column = (lane / 4 % kRows) < 1 << rows_log ? lane : lane & ~(4 * (kRows - 1));
    return {stage.rows + column * 16, stage.biases + lane / 4 * sum_bytes(kPieceGroups, 1) + lane % 4 * 4,
            stage.scales + lane % 4 * 8};
  }

  /// What a lane reads of a piece: codes or bf16, scales and biases of rows g and g + 8, two groups to a word
  /// of four.
  struct Words {
    uint4 values[2 * kSubtiles];
    uint4 scales[kSubtiles][kPieceGroups / 2 + 1];
  };

  /// Of the piece at `place` in shared memory.
  __device__ static __forceinline__ void load(int lane, int place, Words& words) {
#pragma unroll
    for (int i = 0; i < 2 * kSubtiles; ++i)
      words.values[i] = shared_at<const uint4>(place + kSubtiles * kHeaderBytes)[i * 32 + lane];
#pragma unroll
    for (int s = 0; s < kSubtiles; ++s) {
      const int header = place + s * kHeaderBytes, g = lane / 4;
      if constexpr (kPieceGroups == 1) {
        const uint2 two = shared_at<const uint2>(header)[g];
        words.scales[s][0] = make_uint4(two.x, two.y, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < kPieceGroups / 2; ++i)
        words.scales[s][i] = shared_at<const uint4>(header)[g * (kPieceGroups / 2) + i];
    }
  }

  /// Pieces `index` .. of a tile times the staged rows. Several groups of columns are under way at once, as
  /// many as there are registers for; they are added in their order.
  template <int kCount>
  __device__ static __forceinline__ void multiply(int lane, const RowPlaces& places, int index,
                                                  const Words (&words)[kCount], Sums& sums) {
    if constexpr (kFormat == Format::kBf16) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) multiply_floats(places, index + i, words[i], sums);
    } else {
      constexpr int kAll = kCount * kPieceGroups, kChains = 4 / (kSubtiles * kTiles),
                    kAtOnce = kChains < 1      ? 1
                              : kChains < kAll ? kChains
                                               : kAll;
#pragma unroll
      for (int first = 0; first < kAll; first += kAtOnce) {
        float raw[kAtOnce][kSubtiles][kTiles][4];
        multiply_groups<kAtOnce>(places, index, first, words, raw);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int group = (first + j) % kPieceGroups, piece = (first + j) / kPieceGroups;
          if constexpr (kHalves) scale_back(places, index + piece, raw[j]);
          add_group(group, words[piece], raw[j], sums);
          if (group == kPieceGroups - 1) add_biases(lane, places, index + piece, words[piece], sums);
        }
      }
    }
  }

 private:
  static constexpr int kSteps = kGroups == 0 ? 2 : 4 / kGroups;  // of 16 columns, of a group

  /// A lane's operands of 32 columns. `swizzled`: like `which`, as far as swizzle() is concerned: a piece of
  /// 4 bits has four times 32 columns, so there it is known when the kernel is compiled.
  __device__ static __forceinline__ const uint4* columns_at(const RowPlaces& places, int which, int swizzled,
                                                            int tile) {
    return shared_at<const uint4>(places.rows ^ swizzle(swizzled) * 16) + (which * kTiles + tile) * 32;
  }

  __device__ static __forceinline__ void multiply_floats(const RowPlaces& places, int index,
                                                         const Words& words, Sums& sums) {
    uint4 x[kTiles];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) x[tile] = *columns_at(places, index, index, tile);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) {
        const uint4& four = words.values[s * 2 + step];
        const uint32_t a[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile)
          mma(sums[s][tile], a, step == 0 ? x[tile].x : x[tile].z, step == 0 ? x[tile].y : x[tile].w);
      }
    }
  }

  /// Codes times rows, of the groups from `first` on, counted from piece `index` on.
  template <int kAtOnce, int kCount>
  __device__ static __forceinline__ void multiply_groups(const RowPlaces& places, int index, int first,
                                                         const Words (&words)[kCount],
                                                         float (&raw)[kAtOnce][kSubtiles][kTiles][4]) {
    uint4 x[kAtOnce][kSteps / 2][kTiles];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
#pragma unroll
      for (int i = 0; i < kSteps / 2; ++i) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const int before =
              (first + j) * (kSteps / 2) + i;  // times 32 columns, of the pieces from `index` on
          const int which = index * kPieceGroups * (kSteps / 2) + before;
          x[j][i][tile] = *columns_at(places, which, is_fours(kFormat) ? before : which, tile);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int group = (first + j) % kPieceGroups, piece = (first + j) / kPieceGroups;
        const int step = group * kSteps + i;  // of the piece
#pragma unroll
        for (int s = 0; s < kSubtiles; ++s) {
          const int at = (step / 4 * kSubtiles + s) * kCodeWords<kFormat>;
          uint32_t a[4];
          unpack<kFormat>(&words[piece].values[at], step % 4, a);
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            const uint4& two = x[j][i / 2][tile];
            const uint32_t b0 = i % 2 == 0 ? two.x : two.z, b1 = i % 2 == 0 ? two.y : two.w;
            if (i == 0) {
              mma<kHalves>(raw[j][s][tile], a, b0, b1, {0, 0, 0, 0});
            } else {
              mma<kHalves>(raw[j][s][tile], a, b0, b1);
            }
          }
        }
      }
    }
  }

  /// The powers of two of the stretch that piece `index` is of: exact, so it does not matter that others
  /// multiply the scales with them.
  __device__ static __forceinline__ void scale_back(const RowPlaces& places, int index,
                                                    float (&raw)[kSubtiles][kTiles][4]) {
    const int stretch = is_fours(kFormat) ? index : index / 2;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const float2 back =
          *shared_at<const float2>(places.scales + stretch * scale_bytes(kTiles) + tile * scale_bytes(1));
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) {
        float(&of)[4] = raw[s][tile];
        of[0] *= back.x;
        of[1] *= back.y;
        of[2] *= back.x;
        of[3] *= back.y;
      }
    }
  }

  __device__ static __forceinline__ void add_group(int group, const Words& words,
                                                   const float (&raw)[kSubtiles][kTiles][4], Sums& sums) {
#pragma unroll
    for (int s = 0; s < kSubtiles; ++s) {
      const uint4& four = words.scales[s][group / 2];
      const uint32_t both = group % 2 == 0 ? four.x : four.z;
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

  __device__ static __forceinline__ uint32_t bias_word(const Words& words, int s, int group) {
    const uint4& four = words.scales[s][group / 2];
    return group % 2 == 0 ? four.y : four.w;
  }
  __device__ static __forceinline__ void add_biases(int lane, const RowPlaces& places, int index,
                                                    const Words& words, Sums& sums) {
    uint32_t x[kTiles];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      x[tile] = lane / 4 < rows_of_tile(kFormat) && lane % 4 < kPieceGroups
                    ? *shared_at<const uint32_t>(places.biases + (index * kTiles + tile) * kSumBytes)
                    : 0;
#pragma unroll
    for (int s = 0; s < kSubtiles; ++s) {
      uint32_t one = bias_word(words, s, 0), two = one;
      if constexpr (kPieceGroups == 2) two = bias_word(words, s, 1);
      if constexpr (kPieceGroups == 4) {
        // Lanes t = 0, 2 have groups 0 and 1, lanes 1, 3 groups 2 and 3.
        const bool odd = lane % 2 != 0;
        one = odd ? bias_word(words, s, 2) : bias_word(words, s, 0);
        two = odd ? bias_word(words, s, 3) : bias_word(words, s, 1);
      }
      const uint32_t a[4] = {pick_bytes(one, two, 0x5410), pick_bytes(one, two, 0x7632), 0, 0};
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) mma(sums[s][tile], a, x[tile], 0);
    }
  }
};

}  // namespace slip::backend::cuda
