// Staged rows times a matrix, by blocks of 128 rows of the matrix times 64 staged rows (wide_job.h).
//
// Eight warps, four by two; a warp has 32 rows of the matrix (two subtiles) and 32 staged rows (four column
// tiles), high and low parts apart: 64 sums a lane. Columns pass through shared memory 128 at a time, packed
// weights and staged rows together, up to four such stages deep. A warp unpacks its weights of a group of
// columns to registers and multiplies them with all its column tiles. The columns are walked in the order of
// the parts that warps of the narrow product share; where a part ends its sums are added to the total. Per
// stage, warp and 4-bit matrix: 136 mma, 128 fma, about 110 instructions of unpacking, 38 loads of 16 bytes a
// lane from shared memory. Bytes from the second-level cache per stage and block: 35 KiB of rows, 9 of
// weights (4 bits).
//
// What it must reach, computed: a token of 26B-A4B multiplies with 3.08 billion weights, as high and low part
// 12.3 GFLOP, 13.1 with the biases of 4-bit groups of 64; 11,000 tokens a second are 144 TFLOPS, a quarter of
// the roughly 600 that mma.sync has on an H200.
#pragma once

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/piece.h"
#include "backend/cuda/kernels/wide_loader.h"

namespace slip::backend::cuda {

/// A warp's sums and what it adds to them.
template <Format kFormat, int kGroups, int kSubtiles>
struct WideWarp {
  using S = WideShape<kFormat, kGroups, kSubtiles>;
  static constexpr int kColumns = 4;  // column tiles
  static constexpr int kParts = S::kParts;
  float sums[2][kColumns][kParts][4] = {};  // [subtile][column tile][high, low]
  float total[2][kColumns][4] = {};
  int tall, wide, lane;

  __device__ WideWarp() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    tall = warp % 4;
    wide = warp / 4;
    lane = static_cast<int>(threadIdx.x) % 32;
  }

  /// A part of the columns ends.
  __device__ __forceinline__ void fold() {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int tile = 0; tile < kColumns; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          total[s][tile][i] += kParts == 1 ? sums[s][tile][0][i] : sums[s][tile][0][i] + sums[s][tile][1][i];
#pragma unroll
          for (int low = 0; low < kParts; ++low) sums[s][tile][low][i] = 0;
        }
      }
    }
  }

  /// Operands of 32 columns: chunk of the stage.
  __device__ __forceinline__ uint4 column(int values, int chunk, int tile, int low) const {
    return shared_at<const uint4>(values)[((chunk * 8 + wide * 4 + tile) * kParts + low) * 32 + lane];
  }
  /// Tile of the block that holds subtile s of this warp, and the place of its piece.
  __device__ __forceinline__ int piece_at(int place, int s, int piece) const {
    const int tile = kSubtiles == 2 ? tall : tall * 2 + s;
    return place + (tile * S::kPieces + piece) * S::kPieceBytes;
  }
  __device__ static __forceinline__ int in_tile(int s) {
    return kSubtiles == 2 ? s : 0;
  }

  /// Piece `piece` of the stage at `place`; `blocks` of 64 columns exist.
  __device__ __forceinline__ void multiply(int place, int piece, int blocks) {
    if constexpr (kFormat == Format::kBf16) {
      multiply_floats(place, piece);
    } else {
      uint4 scales[2][(S::kPieceGroups + 1) / 2];
#pragma unroll
      for (int s = 0; s < 2; ++s)
        load_scales(piece_at(place, s, piece) + in_tile(s) * S::kHeaderBytes, scales[s]);
      constexpr int kBlocks = is_fours(kFormat) ? 2 : 1;
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        if (block > 0 && block >= blocks) continue;
        multiply_block(place, piece, block, scales);
      }
      add_biases(place, piece, scales);
    }
  }

 private:
  using Scales = uint4[(S::kPieceGroups + 1) / 2];

  __device__ __forceinline__ void multiply_floats(int place, int piece) {
    const int values = place + S::kWeightBytes;
    uint4 a[2][2];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int step = 0; step < 2; ++step)
        a[s][step] = shared_at<const uint4>(piece_at(place, s, piece))[(in_tile(s) * 2 + step) * 32 + lane];
    }
#pragma unroll
    for (int tile = 0; tile < kColumns; ++tile) {
#pragma unroll
      for (int low = 0; low < 2; ++low) {
        const uint4 x = column(values, piece, tile, low);
#pragma unroll
        for (int step = 0; step < 2; ++step) {
#pragma unroll
          for (int s = 0; s < 2; ++s) {
            const uint32_t words[4] = {a[s][step].x, a[s][step].y, a[s][step].z, a[s][step].w};
            mma(sums[s][tile][low], words, step == 0 ? x.x : x.z, step == 0 ? x.y : x.w);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void load_scales(int place, Scales& scales) const {
    const int g = lane / 4;
    if constexpr (S::kPieceGroups == 1) {
      const uint2 two = shared_at<const uint2>(place)[g];
      scales[0] = make_uint4(two.x, two.y, 0, 0);
    } else {
#pragma unroll
      for (int i = 0; i < S::kPieceGroups / 2; ++i)
        scales[i] = shared_at<const uint4>(place)[g * (S::kPieceGroups / 2) + i];
    }
  }
  __device__ static __forceinline__ uint32_t scale_word(const Scales& scales, int group) {
    return group % 2 == 0 ? scales[group / 2].x : scales[group / 2].z;
  }
  __device__ static __forceinline__ uint32_t bias_word(const Scales& scales, int group) {
    return group % 2 == 0 ? scales[group / 2].y : scales[group / 2].w;
  }

  __device__ __forceinline__ void multiply_block(int place, int piece, int block, const Scales (&scales)[2]) {
    constexpr int kWords = kCodeWords<kFormat>;
    constexpr int kSteps = 4 / kGroups;  // of a group
    constexpr int kChunks = piece_cols(kFormat) / 32;
    const int values = place + S::kWeightBytes;
    uint4 codes[2][kWords];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int word = 0; word < kWords; ++word)
        codes[s][word] = shared_at<const uint4>(
            piece_at(place, s, piece) +
            kSubtiles * S::kHeaderBytes)[((block * kSubtiles + in_tile(s)) * kWords + word) * 32 + lane];
    }
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      uint32_t a[2][kSteps][4];
#pragma unroll
      for (int s = 0; s < 2; ++s) {
#pragma unroll
        for (int i = 0; i < kSteps; ++i) unpack<kFormat>(codes[s], group * kSteps + i, a[s][i]);
      }
      const int number = block * kGroups + group;  // of the piece's groups
#pragma unroll
      for (int tile = 0; tile < kColumns; ++tile) {
        float raw[2][kParts][4];
#pragma unroll
        for (int i = 0; i < kSteps; ++i) {
#pragma unroll
          for (int low = 0; low < kParts; ++low) {
            const uint4 x = column(values, piece * kChunks + block * 2 + (group * kSteps + i) / 2, tile, low);
            const uint32_t b0 = i % 2 == 0 ? x.x : x.z, b1 = i % 2 == 0 ? x.y : x.w;
#pragma unroll
            for (int s = 0; s < 2; ++s) {
              if (i == 0) {
                mma<S::kHalves>(raw[s][low], a[s][i], b0, b1, {0, 0, 0, 0});
              } else {
                mma<S::kHalves>(raw[s][low], a[s][i], b0, b1);
              }
            }
          }
        }
        float back[2] = {1, 1};  // of the lane's columns
        if constexpr (S::kHalves) {
#pragma unroll
          for (int i = 0; i < 2; ++i)
            back[i] = tail_back<S>(values + S::kValueBytes, piece, wide * 32 + tile * 8 + lane % 4 * 2 + i);
        }
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          const uint32_t both = scale_word(scales[s], number);
          const float scale0 = bf16_low(both), scale1 = bf16_high(both);
#pragma unroll
          for (int low = 0; low < kParts; ++low) {
            float(&to)[4] = sums[s][tile][low];
            const float(&from)[4] = raw[s][low];
            to[0] = fmaf(scale0 * back[0], from[0], to[0]);
            to[1] = fmaf(scale0 * back[1], from[1], to[1]);
            to[2] = fmaf(scale1 * back[0], from[2], to[2]);
            to[3] = fmaf(scale1 * back[1], from[3], to[3]);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void add_biases(int place, int piece, const Scales (&scales)[2]) {
    const int at = place + S::kWeightBytes + S::kValueBytes + (piece * kWideTokens + wide * 32) * 16;
    uint32_t x[kColumns];
#pragma unroll
    for (int tile = 0; tile < kColumns; ++tile) x[tile] = shared_at<const uint32_t>(at)[tile * 32 + lane];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      uint32_t one = bias_word(scales[s], 0), two = one;
      if constexpr (S::kPieceGroups == 2) two = bias_word(scales[s], 1);
      if constexpr (S::kPieceGroups == 4) {
        const bool odd = lane % 2 != 0;
        one = odd ? bias_word(scales[s], 2) : bias_word(scales[s], 0);
        two = odd ? bias_word(scales[s], 3) : bias_word(scales[s], 1);
      }
      const uint32_t a[4] = {pick_bytes(one, two, 0x5410), pick_bytes(one, two, 0x7632), 0, 0};
#pragma unroll
      for (int tile = 0; tile < kColumns; ++tile) mma(sums[s][tile][0], a, x[tile], 0);
    }
  }
};

/// One result: row `row` of the matrix, row (or pair) `n`.
__device__ __forceinline__ void put_wide(const WideProduct& job, float* out, int row, int n, float y) {
  if (job.epilogue == Epilogue::kGeluTimes) y = gelu_tanh(y) * job.other[n * job.other_stride + row];
  if (job.epilogue == Epilogue::kLogits && job.softcap > 0) y = job.softcap * tanhf(y / job.softcap);
  out[n * job.out_stride + row] = y;
}

/// Lane 4g + t has rows g and g + 8 of a subtile, columns 2t and 2t + 1 of a tile.
template <Format kFormat, int kGroups, int kSubtiles>
__device__ __forceinline__ void finish_wide(const WideProduct& job, const WideUnit& unit,
                                            const WideWarp<kFormat, kGroups, kSubtiles>& warp) {
  const PackedMatrix& matrix = job.matrix;
  const int g = warp.lane / 4, t = warp.lane % 4;
#pragma unroll
  for (int tile = 0; tile < 4; ++tile) {
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      const int n = warp.wide * 32 + tile * 8 + 2 * t + column;
      if (n >= unit.count) continue;
      const int to = wide_row(job, unit, n);
      const float scale = job.factors != nullptr ? job.factors[to / job.pairs_per_row] : 1.0f;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = half * 2 + column;
        if (kSubtiles == 2 && matrix.pair) {
          const int row = (unit.first_tile + warp.tall) * 16 + g + 8 * half;
          const float y = warp.total[0][tile][i] * scale, up = warp.total[1][tile][i] * scale;
          if (row < matrix.rows) put_wide(job, unit.out, row, to, activate(y, job.activation) * up);
          continue;
        }
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          const int row = unit.first_tile * 16 * kSubtiles + (warp.tall * 2 + s) * 16 + g + 8 * half;
          if (row < matrix.rows) put_wide(job, unit.out, row, to, warp.total[s][tile][i] * scale);
        }
      }
    }
  }
}

template <Format kFormat, int kGroups, int kSubtiles>
__device__ __forceinline__ void run_wide(const WideProduct& job) {
  using S = WideShape<kFormat, kGroups, kSubtiles>;
  WideUnit unit;
  if (!find_wide_unit<S>(job, static_cast<int>(blockIdx.x), unit)) return;
  const PackedMatrix& matrix = job.matrix;
  WideLoader<S> loader(job, unit);
  WideWarp<kFormat, kGroups, kSubtiles> warp;
  const bool works = warp.wide * 32 < unit.count && (job.skipped & kSkipMultiply) == 0;
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
    __syncthreads();
    const int ahead = stage + S::kStages - 1, free_slot = slot == 0 ? S::kStages - 1 : slot - 1;
    if (ahead < stages && (job.skipped & kSkipStream) == 0) loader.bring(ahead, free_slot * S::kStageBytes);
    copy_commit();
    if (works) {
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
  if (works) finish_wide(job, unit, warp);
}

}  // namespace slip::backend::cuda
