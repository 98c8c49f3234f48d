// Staged rows times a matrix by warpgroups (wide_group.h): two of them multiply, each with 64 rows of the
// matrix, a subtile per warp, and the 64 staged rows of the block, high and low parts: 64 sums a lane, 64
// more of the group of columns under way and 32 totals; where at most 48, 32 or 16 rows are there, fewer. A
// third one copies, up to three stages of 128 columns ahead, and goes on to the next unit while the others
// finish one: there is a block per multiprocessor, which takes one unit after another. The two that multiply
// take turns: while the products of one are under way, the other unpacks weights and scales sums. Without
// that both would wait for the tensor cores together and then leave them idle together. The order of the
// columns and the parts are those of wide_product.h. Per stage, warp and 4-bit matrix: 8 products of 64 x 128
// x 16, 128 fma, 40 instructions of unpacking, 4 loads; the products alone are 512 clocks.
#pragma once

#include "backend/cuda/kernels/wide_group.h"
#include "backend/cuda/kernels/wide_group_loader.h"
#include "backend/cuda/kernels/wide_product.h"

namespace slip::backend::cuda {

inline constexpr int kCopierRegisters = 40, kMultiplierRegisters = 232;

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
  static constexpr int kParts = S::kParts;
  float sums[kParts * kColumns][4] = {};  // [column tile][high, low]
  float total[kColumns][4] = {};
  int lane, group, tile, subtile;  // warpgroup; of the block; of the tile

  __device__ GroupWarp()
      : lane(static_cast<int>(threadIdx.x) % 32),
        group(static_cast<int>(threadIdx.x) / kGroupThreads),
        tile(static_cast<int>(threadIdx.x) / 32 / kSubtiles),
        subtile(static_cast<int>(threadIdx.x) / 32 % kSubtiles) {}

  /// A part of the columns ends.
  __device__ __forceinline__ void fold() {
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        total[column][i] +=
            kParts == 1 ? sums[column][i] : sums[kParts * column][i] + sums[kParts * column + 1][i];
#pragma unroll
        for (int low = 0; low < kParts; ++low) sums[kParts * column + low][i] = 0;
      }
    }
  }

  /// Piece `piece` of the slot at `place`; `blocks` of 64 columns exist.
  __device__ __forceinline__ void multiply(int place, int piece, int blocks) {
    constexpr int kBlocks = piece_cols(kFormat) / 64;
    const int weights = weights_at(place, piece),
              values = place + piece * kBlocks * GroupSlot<S>::kBlockBytes;
    const int tails = place + GroupSlot<S>::kTails + piece * kWideTokens * 16;
    WideScales<S> scales;
    scales.load(weights + subtile * S::kHeaderBytes, lane);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      if (block > 0 && block >= blocks) continue;
      multiply_block(weights, values + block * GroupSlot<S>::kBlockBytes, block, scales,
                     place + GroupSlot<S>::kTails, piece);
    }
    add_biases(tails, scales);
  }

  /// All pieces of bf16 of the slot at `place`.
  __device__ __forceinline__ void multiply_floats(int place) {
    uint32_t a[S::kPieces][2][4];
#pragma unroll
    for (int i = 0; i < S::kPieces; ++i) load_floats(place, i, a[i]);
    await_turn();
    group_begin(sums);
#pragma unroll
    for (int i = 0; i < S::kPieces; ++i) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        if (i == S::kPieces - 1 && step == 1) group_commit();
        group_mma(sums, a[i][step], place + i / 2 * GroupSlot<S>::kBlockBytes, i % 2 * 2 + step);
      }
    }
    pass_turn();
    group_end(sums);
  }
  /// One of them; the compiler would let every product wait if there were decisions between them.
  __device__ __forceinline__ void multiply_floats(int place, int piece) {
    uint32_t a[2][4];
    load_floats(place, piece, a);
    const int values = place + piece / 2 * GroupSlot<S>::kBlockBytes, first = piece % 2 * 2;
    await_turn();
    group_begin(sums);
    group_mma(sums, a[0], values, first);
    group_commit();
    group_mma(sums, a[1], values, first + 1);
    pass_turn();
    group_end(sums);
  }

 private:
  __device__ __forceinline__ void load_floats(int place, int piece, uint32_t (&a)[2][4]) const {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const uint4 words = shared_at<const uint4>(weights_at(place, piece))[(subtile * 2 + step) * 32 + lane];
      a[step][0] = words.x, a[step][1] = words.y, a[step][2] = words.z, a[step][3] = words.w;
    }
  }

  __device__ __forceinline__ int weights_at(int place, int piece) const {
    return place + GroupSlot<S>::kWeights + (tile * S::kPieces + piece) * S::kPieceBytes;
  }

  /// The tensor cores take whatever is there in turn, so the other warpgroup's products start when all of
  /// this one's are done but the last, which leaves the time to start them.
  __device__ __forceinline__ void await_turn() const {
    sync_some(turn_of(group), 2 * kGroupThreads);
  }
  __device__ __forceinline__ void pass_turn() const {
    group_commit();
    group_wait_but_one();
    arrive_some(turn_of(1 - group), 2 * kGroupThreads);
  }

  __device__ __forceinline__ void multiply_block(int weights, int values, int block,
                                                 const WideScales<S>& scales, int tails, int piece) {
    constexpr int kWords = kCodeWords<kFormat>;
    constexpr int kSteps = 4 / kGroups;  // of a group
    uint4 codes[kWords];
#pragma unroll
    for (int word = 0; word < kWords; ++word)
      codes[word] = shared_at<const uint4>(
          weights + kSubtiles * S::kHeaderBytes)[((block * kSubtiles + subtile) * kWords + word) * 32 + lane];
#pragma unroll
    for (int part = 0; part < kGroups; ++part) {  // groups of columns
      uint32_t a[kSteps][4];
#pragma unroll
      for (int i = 0; i < kSteps; ++i) unpack<kFormat>(codes, part * kSteps + i, a[i]);
      const int number = block * kGroups + part;  // of the piece's groups
      float raw[kParts * kColumns][4];
      await_turn();
      group_begin_at_zero(raw);
      group_mma<false, S::kHalves>(raw, a[0], values, part * kSteps);
#pragma unroll
      for (int i = 1; i < kSteps; ++i) {
        if (i == kSteps - 1) group_commit();
        group_mma<true, S::kHalves>(raw, a[i], values, part * kSteps + i);
      }
      pass_turn();
      group_end(raw);
      const uint32_t both = scales.scale(number);
      const float scale0 = bf16_low(both), scale1 = bf16_high(both);
#pragma unroll
      for (int column = 0; column < kParts * kColumns; ++column) {
        float back[2] = {1, 1};  // of the lane's columns
        if constexpr (S::kHalves) {
#pragma unroll
          for (int i = 0; i < 2; ++i) back[i] = tail_back<S>(tails, piece, column * 8 + lane % 4 * 2 + i);
        }
        sums[column][0] = fmaf(scale0 * back[0], raw[column][0], sums[column][0]);
        sums[column][1] = fmaf(scale0 * back[1], raw[column][1], sums[column][1]);
        sums[column][2] = fmaf(scale1 * back[0], raw[column][2], sums[column][2]);
        sums[column][3] = fmaf(scale1 * back[1], raw[column][3], sums[column][3]);
      }
    }
  }

  __device__ __forceinline__ void add_biases(int tails, const WideScales<S>& scales) {
    const auto* x = shared_at<const uint32_t>(tails) + lane;
    uint32_t a[4];
    scales.row_operand(lane, a);
#pragma unroll
    for (int column = 0; column < kColumns; ++column) mma(sums[kParts * column], a, x[column * 32], 0);
  }
};

/// Lane 4g + t has rows g and g + 8 of the warp's subtile, columns 2t and 2t + 1 of a tile. Gate and up are
/// with neighbouring warps: each gives the other half of its tiles and finishes the rest.
template <Format kFormat, int kGroups, int kSubtiles, int kColumns>
__device__ __forceinline__ void finish_group(const WideProduct& job, const WideUnit& unit, int exchange,
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
    auto* shared =
        shared_at<float4>(exchange) + static_cast<int>(threadIdx.x) / 64 * kColumns * 32 + warp.lane;
    const bool up = warp.subtile == 1;
    sync_some(kMultipliers, 2 * kGroupThreads);
#pragma unroll
    for (int column = 0; column < kColumns; ++column) {
      if ((column < kHalf) == up)
        shared[column * 32] = make_float4(warp.total[column][0], warp.total[column][1], warp.total[column][2],
                                          warp.total[column][3]);
    }
    sync_some(kMultipliers, 2 * kGroupThreads);
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

/// A unit, by the warpgroups that multiply; `slot` goes on from unit to unit.
template <Format kFormat, int kGroups, int kSubtiles, int kColumns>
__device__ __forceinline__ void multiply_unit(const WideProduct& job, const WideUnit& unit, int base,
                                              int& slot) {
  using S = WideShape<kFormat, kGroups, kSubtiles>;
  const PackedMatrix& matrix = job.matrix;
  GroupWarp<kFormat, kGroups, kSubtiles, kColumns> warp;
  const int stages = (matrix.pieces + S::kPieces - 1) / S::kPieces;
  const int place_of_last = matrix.tile_bytes - (matrix.pieces - 1) * S::kPieceBytes;
  const int last_blocks = place_of_last < S::kPieceBytes ? 1 : 2;
  int part = 0, part_end = 0;
  const auto next_part = [&](int piece) {
    while (part < matrix.parts && (part_end = (part + 1) * matrix.pieces / matrix.parts) == piece) ++part;
  };
  next_part(0);
  for (int stage = 0; stage < stages; ++stage) {
    sync_some(filled(warp.group, slot), 2 * kGroupThreads);
    const int place = base + slot * GroupSlot<S>::kBytes;
    const int first = stage * S::kPieces;
    const auto end_of = [&](int piece) {
      if (piece + 1 != part_end) return;
      warp.fold();
      next_part(part_end);
    };
    if ((job.skipped & kSkipMultiply) != 0) {
      // only waits
    } else if constexpr (kFormat == Format::kBf16) {
      if (min(part_end, matrix.pieces) >= first + S::kPieces) {
        warp.multiply_floats(place);
        end_of(first + S::kPieces - 1);
      } else {
        for (int piece = first; piece < min(first + S::kPieces, matrix.pieces); ++piece) {
          warp.multiply_floats(place, piece - first);
          end_of(piece);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < S::kPieces; ++i) {
        if (first + i >= matrix.pieces) continue;
        warp.multiply(place, i, first + i + 1 == matrix.pieces ? last_blocks : 2);
        end_of(first + i);
      }
    }
    arrive_some(emptied(warp.group, slot), 2 * kGroupThreads);
    slot = slot + 1 == kGroupSlots ? 0 : slot + 1;
  }
  finish_group(job, unit, base + GroupSlot<S>::kExchange, warp);
  __syncwarp();  // lanes may have left some results out
}

/// All units of this block, by the warpgroups that multiply.
template <Format kFormat, int kGroups, int kSubtiles>
__device__ __forceinline__ void multiply_units(const WideProduct& job, int units, int base) {
  using S = WideShape<kFormat, kGroups, kSubtiles>;
  const bool first = threadIdx.x < kGroupThreads;
  if (!first) arrive_some(turn_of(0), 2 * kGroupThreads);
  int slot = 0;
  WideUnit unit;
  for (int index = static_cast<int>(blockIdx.x); index < units; index += static_cast<int>(gridDim.x)) {
    if (!find_wide_unit<S>(job, index, unit)) break;
    switch ((unit.count + 15) / 16) {
      case 1: multiply_unit<kFormat, kGroups, kSubtiles, 2>(job, unit, base, slot); break;
      case 2: multiply_unit<kFormat, kGroups, kSubtiles, 4>(job, unit, base, slot); break;
      case 3: multiply_unit<kFormat, kGroups, kSubtiles, 6>(job, unit, base, slot); break;
      default: multiply_unit<kFormat, kGroups, kSubtiles, 8>(job, unit, base, slot);
    }
  }
  if (first) sync_some(turn_of(0), 2 * kGroupThreads);
}

/// All units of this block, by the warpgroup that copies. The latest stage but one is handed over before
/// there is room for the next, so that nobody who multiplies waits for this warpgroup's turn.
template <typename S>
__device__ __forceinline__ void copy_units(const WideProduct& job, int units, int base) {
  const int stages = (job.matrix.pieces + S::kPieces - 1) / S::kPieces;
  const auto hand_over = [](int number) {
    group_publish();
    __syncwarp();
    for (int group = 0; group < 2; ++group)
      arrive_some(filled(group, number % kGroupSlots), 2 * kGroupThreads);
  };
  const auto await_room = [](int number) {
    for (int group = 0; group < 2; ++group)
      sync_some(emptied(group, number % kGroupSlots), 2 * kGroupThreads);
  };
  int number = 0;  // of stages so far
  WideUnit unit;
  for (int index = static_cast<int>(blockIdx.x); index < units; index += static_cast<int>(gridDim.x)) {
    if (!find_wide_unit<S>(job, index, unit)) break;
    GroupLoader<S> loader(job, unit);
    for (int stage = 0; stage < stages; ++stage, ++number) {
      if (number >= 2) {
        copy_wait<1>();
        hand_over(number - 2);
      }
      if (number >= kGroupSlots) await_room(number);
      if (number < kGroupSlots || (job.skipped & kSkipStream) == 0)
        loader.bring(stage, base + number % kGroupSlots * GroupSlot<S>::kBytes);
      copy_commit();
    }
  }
  copy_wait<1>();
  if (number >= 2) hand_over(number - 2);
  copy_wait<0>();
  if (number >= 1) hand_over(number - 1);
  for (int i = max(0, number - kGroupSlots); i < number; ++i) await_room(i);
}

}  // namespace slip::backend::cuda
