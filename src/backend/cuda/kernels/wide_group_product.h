// Staged rows times a matrix by warpgroups (wide_group.h): two of them, each with 64 rows of the matrix, a
// subtile per warp, and the 64 staged rows of the block, high and low parts: 64 sums a lane, 64 more of the
// group of columns under way and 32 totals. Where at most 32 rows are there, half of that. While one
// warpgroup unpacks weights and scales sums, the other's products are under way. Loading, the order of the
// columns and the parts are those of wide_product.h.
// Per stage, warp and 4-bit matrix: 8 products of 64 x 128 x 16, 128 fma, 128 moves, 64 instructions of
// unpacking, 36 loads.
#pragma once

#include "backend/cuda/kernels/wide_group.h"
#include "backend/cuda/kernels/wide_product.h"

namespace slip::backend::cuda {

/// Scales and biases of a subtile's groups in a piece, of rows g and g + 8.
template <typename S>
struct WideScales {
  uint4 words[(S::kPieceGroups + 1) / 2];

  __device__ __forceinline__ void load(int place, int lane) {
    const int g = lane / 4;
    if constexpr (S::kPieceGroups == 1) {
      const uint2 two = shared_at<const uint2>(place)[g];
      words[0] = make_uint4(two.x, two.y, 0, 0);
    } else {
#pragma unroll
      for (int i = 0; i < S::kPieceGroups / 2; ++i)
        words[i] = shared_at<const uint4>(place)[g * (S::kPieceGroups / 2) + i];
    }
  }
  __device__ __forceinline__ uint32_t scale(int group) const {
    return group % 2 == 0 ? words[group / 2].x : words[group / 2].z;
  }
  __device__ __forceinline__ uint32_t bias(int group) const {
    return group % 2 == 0 ? words[group / 2].y : words[group / 2].w;
  }
  /// All biases as a row operand: see Piece::add_biases().
  __device__ __forceinline__ void row_operand(int lane, uint32_t (&a)[4]) const {
    uint32_t one = bias(0), two = one;
    if constexpr (S::kPieceGroups == 2) two = bias(1);
    if constexpr (S::kPieceGroups == 4) {
      const bool odd = lane % 2 != 0;
      one = odd ? bias(2) : bias(0);
      two = odd ? bias(3) : bias(1);
    }
    a[0] = pick_bytes(one, two, 0x5410);
    a[1] = pick_bytes(one, two, 0x7632);
    a[2] = a[3] = 0;
  }
};

/// A warp's sums and what its warpgroup adds to them; `kColumns` tiles of 8 rows.
template <Format kFormat, int kGroups, int kSubtiles, int kColumns>
struct GroupWarp {
  using S = WideShape<kFormat, kGroups, kSubtiles>;
  static constexpr int kStepBytes = kWideTokens * 64;  // of 16 columns
  float sums[2 * kColumns][4] = {};                    // [column tile][high, low]
  float total[kColumns][4] = {};
  int lane, tile, subtile;  // of the block, of the tile

  __device__ GroupWarp()
      : lane(static_cast<int>(threadIdx.x) % 32),
        tile(static_cast<int>(threadIdx.x) / 32 / kSubtiles),
        subtile(static_cast<int>(threadIdx.x) / 32 % kSubtiles),
        one_{bf16_low(0x3f80u + unknown_zero()), bf16_low(0x3f80u + unknown_zero<1>())},
        magic_{0x43004300u + unknown_zero(), 0x45004500u + unknown_zero()} {}

  /// A part of the columns ends.
  __device__ __forceinline__ void fold() {
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[column][i] += sums[2 * column][i] + sums[2 * column + 1][i];
        sums[2 * column][i] = sums[2 * column + 1][i] = 0;
      }
    }
  }

  /// Piece `piece` of the stage at `place`; `blocks` of 64 columns exist.
  __device__ __forceinline__ void multiply(int place, int piece, int blocks) {
    const int weights = place + (tile * S::kPieces + piece) * S::kPieceBytes;
    const int values = place + S::kWeightBytes + piece * (piece_cols(kFormat) / 16) * kStepBytes;
    if constexpr (kFormat == Format::kBf16) {
      multiply_floats(weights, values);
    } else {
      const int tails =
          place + S::kWeightBytes + S::kValueBytes + piece * S::kLayout.tail_units() * kWideTokens * 16;
      WideScales<S> scales;
      scales.load(weights + subtile * S::kHeaderBytes, lane);
      constexpr int kBlocks = kFormat == Format::kAffine4 ? 2 : 1;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        if (block > 0 && block >= blocks) continue;
        multiply_block(weights, values + block * 4 * kStepBytes, tails, block, scales);
      }
      add_biases(tails, scales);
    }
  }

 private:
  __device__ __forceinline__ void multiply_floats(int weights, int values) {
    uint32_t a[2][4];
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const uint4 words = shared_at<const uint4>(weights)[(subtile * 2 + step) * 32 + lane];
      a[step][0] = words.x, a[step][1] = words.y, a[step][2] = words.z, a[step][3] = words.w;
    }
    group_begin(sums);
#pragma unroll
    for (int step = 0; step < 2; ++step) group_mma(sums, a[step], values + step * kStepBytes);
    group_end(sums);
  }

  /// What the sums of a group start from. Multiplied, because moves take twice as long.
  __device__ __forceinline__ void load_starts(int tails, int group, float (&raw)[2 * kColumns][4]) const {
    const int at = tails + (group / 2 * kWideTokens + lane % 4 * 2) * 16 + group % 2 * 8;
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float2 start = *shared_at<const float2>(at + (column * 8 + i) * 16);
        raw[2 * column][i] = start.x * one_[0];
        raw[2 * column][i + 2] = start.x * one_[1];
        raw[2 * column + 1][i] = start.y * one_[0];
        raw[2 * column + 1][i + 2] = start.y * one_[1];
      }
    }
  }

  /// See unpack(); from a register, the constant costs nothing.
  __device__ static __forceinline__ void unpack_with(uint32_t magic, uint32_t word, uint32_t (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = (word >> 4 * i & 0x000f000fu) | magic;
  }

  __device__ __forceinline__ void multiply_block(int weights, int values, int tails, int block,
                                                 const WideScales<S>& scales) {
    constexpr int kPlanes = kFormat == Format::kAffine8 ? 2 : 1;
    constexpr int kSteps = 4 / kGroups;  // of a group
    uint4 codes[kPlanes];
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane)
      codes[plane] = shared_at<const uint4>(
          weights +
          kSubtiles * S::kHeaderBytes)[((block * kSubtiles + subtile) * kPlanes + plane) * 32 + lane];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      uint32_t a[kSteps][kPlanes][4];
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
#pragma unroll
        for (int plane = 0; plane < kPlanes; ++plane)
          unpack_with(magic_[plane], word_of(codes[plane], group * kSteps + i), a[i][plane]);
      }
      const int number = block * kGroups + group;  // of the piece's groups
      float raw[2 * kColumns][4];
      load_starts(tails, number, raw);
      group_begin(raw);
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
#pragma unroll
        for (int plane = 0; plane < kPlanes; ++plane)
          group_mma(raw, a[i][plane], values + (group * kSteps + i) * kStepBytes);
      }
      group_end(raw);
      const uint32_t both = scales.scale(number);
      const float scale0 = bf16_low(both), scale1 = bf16_high(both);
#pragma unroll
      for (int column = 0; column < 2 * kColumns; ++column) {
        sums[column][0] = fmaf(scale0, raw[column][0], sums[column][0]);
        sums[column][1] = fmaf(scale0, raw[column][1], sums[column][1]);
        sums[column][2] = fmaf(scale1, raw[column][2], sums[column][2]);
        sums[column][3] = fmaf(scale1, raw[column][3], sums[column][3]);
      }
    }
  }

  __device__ __forceinline__ void add_biases(int tails, const WideScales<S>& scales) {
    const auto* x =
        shared_at<const uint32_t>(tails + (S::kLayout.tail_units() - 1) * kWideTokens * 16) + lane;
    uint32_t a[4];
    scales.row_operand(lane, a);
#pragma unroll
    for (int column = 0; column < kColumns; ++column) mma(sums[2 * column], a, x[column * 32], 0);
  }

  const float one_[2];
  const uint32_t magic_[2];
};

/// Lane 4g + t has rows g and g + 8 of the warp's subtile, columns 2t and 2t + 1 of a tile. Gate and up are
/// with neighbouring warps: each gives the other half of its tiles and finishes the rest.
template <Format kFormat, int kGroups, int kSubtiles, int kColumns>
__device__ __forceinline__ void finish_group(const WideProduct& job, const WideUnit& unit,
                                             const GroupWarp<kFormat, kGroups, kSubtiles, kColumns>& warp) {
  const PackedMatrix& matrix = job.matrix;
  const int g = warp.lane / 4, t = warp.lane % 4;
  const auto put = [&](int column, int first_row, const auto& value) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int n = column * 8 + 2 * t + i;
      if (n >= unit.count) continue;
      const int to = wide_row(job, unit, n);
      const float scale = job.factors != nullptr ? job.factors[to / job.pairs_per_row] : 1.0f;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + g + 8 * half;
        if (row < matrix.rows) put_wide(job, unit.out, row, to, value(half * 2 + i, scale));
      }
    }
  };
  if (kSubtiles == 2 && matrix.pair) {
    constexpr int kHalf = kColumns / 2;
    auto* shared = shared_at<float4>(0) + static_cast<int>(threadIdx.x) / 64 * kColumns * 32 + warp.lane;
    const bool up = warp.subtile == 1;
    __syncthreads();
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      if ((column < kHalf) == up)
        shared[column * 32] = make_float4(warp.total[column][0], warp.total[column][1], warp.total[column][2],
                                          warp.total[column][3]);
    }
    __syncthreads();
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      if ((column < kHalf) == up) continue;
      const float4 theirs = shared[column * 32];
      const float other[4] = {theirs.x, theirs.y, theirs.z, theirs.w};
      put(column, (unit.first_tile + warp.tile) * 16, [&](int i, float scale) {
        const float mine = warp.total[column][i] * scale, its = other[i] * scale;
        return activate(up ? its : mine, job.activation) * (up ? mine : its);
      });
    }
    return;
  }
#pragma unroll
  for (int column = 0; column < kColumns; ++column)
    put(column, ((unit.first_tile + warp.tile) * kSubtiles + warp.subtile) * 16,
        [&](int i, float scale) { return warp.total[column][i] * scale; });
}

template <Format kFormat, int kGroups, int kSubtiles, int kColumns>
__device__ __forceinline__ void run_group(const WideProduct& job, const WideUnit& unit) {
  using S = WideShape<kFormat, kGroups, kSubtiles>;
  const PackedMatrix& matrix = job.matrix;
  const WideLoader<S, WideWorkers::kGroups> loader(job, unit);
  GroupWarp<kFormat, kGroups, kSubtiles, kColumns> warp;
  const int stages = (matrix.pieces + S::kPieces - 1) / S::kPieces;
  const int place_of_last = matrix.tile_bytes - (matrix.pieces - 1) * S::kPieceBytes;
  const int last_blocks = place_of_last < S::kPieceBytes ? 1 : 2;
#pragma unroll
  for (int i = 0; i < S::kStages - 1; ++i) {
    if (i < stages) loader.bring(i, i * S::kStageBytes);
    copy_commit();
  }
  int part = 0, part_end = 0;
  const auto next_part = [&](int piece) {
    while (part < matrix.parts && (part_end = (part + 1) * matrix.pieces / matrix.parts) == piece) ++part;
  };
  next_part(0);
  int slot = 0;
  for (int stage = 0; stage < stages; ++stage) {
    copy_wait<S::kStages - 2>();
    group_publish();
    __syncthreads();
    const int ahead = stage + S::kStages - 1, free_slot = slot == 0 ? S::kStages - 1 : slot - 1;
    if (ahead < stages && (job.skipped & kSkipStream) == 0) loader.bring(ahead, free_slot * S::kStageBytes);
    copy_commit();
    if ((job.skipped & kSkipMultiply) == 0) {
#pragma unroll
      for (int i = 0; i < S::kPieces; ++i) {
        const int piece = stage * S::kPieces + i;
        if (piece >= matrix.pieces) continue;
        warp.multiply(slot * S::kStageBytes, i, piece + 1 == matrix.pieces ? last_blocks : 2);
        if (piece + 1 == part_end) {
          warp.fold();
          next_part(piece + 1);
        }
      }
    }
    slot = slot + 1 == S::kStages ? 0 : slot + 1;
  }
  copy_wait<0>();
  finish_group(job, unit, warp);
}

}  // namespace slip::backend::cuda
