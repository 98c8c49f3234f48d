// The slots through which columns come to the warpgroups that multiply (wide_group_product.h), their
// barriers, and the warpgroup that fills them.
#pragma once

#include "backend/cuda/kernels/wide_loader.h"

namespace slip::backend::cuda {

inline constexpr int kGroupThreads = 128;  // of a warpgroup
inline constexpr int kGroupSlots = 3;
inline constexpr int kGroupBlockThreads = 3 * kGroupThreads;

/// Barriers of sync_some(), for warpgroup 0 or 1 of those that multiply.
__device__ __forceinline__ int filled(int group, int slot) {
  return 1 + group * kGroupSlots + slot;
}
__device__ __forceinline__ int emptied(int group, int slot) {
  return 1 + (2 + group) * kGroupSlots + slot;
}
__device__ __forceinline__ int turn_of(int group) {
  return 1 + 4 * kGroupSlots + group;
}
inline constexpr int kMultipliers = 3 + 4 * kGroupSlots;  // all of them
static_assert(kMultipliers <= 15);

/// Places in a slot: [64 columns][8 rows][high, low][row][64 columns] values, weights, tails.
template <typename S>
struct GroupSlot {
  static constexpr int kBlockBytes = kWideTokens * 128 * S::kParts;  // of 64 columns
  static constexpr int kWeights = S::kValueBytes;
  static constexpr int kTails = kWeights + S::kWeightBytes;
  static constexpr int kBytes = (S::kStageBytes + 1023) / 1024 * 1024;
  static constexpr int kExchange = kGroupSlots * kBytes;  // where gate and up meet
  static constexpr int kSharedBytes = kExchange + (S::kTiles == 4 ? 2 * kWideTokens * 128 : 0) + 1024;
};

/// Brings stages of a unit to slots, by the warpgroup that copies. Eight threads have 128 bytes of a row.
template <typename S>
class GroupLoader {
 public:
  __device__ GroupLoader(const WideProduct& job, const WideUnit& unit)
      : matrix_(job.matrix),
        weights_(job.matrix, unit.weights, unit.first_tile),
        staged_(unit.staged),
        tiles_(unit.tiles),
        pieces_(job.matrix.pieces),
        rows_((unit.count + 15) / 16) {
    const auto row = [&](int n) {
      return static_cast<uint32_t>(staged_row(job, unit, n)) * static_cast<uint32_t>(job.row_bytes / 16);
    };
#pragma unroll
    for (int i = 0; i < 4; ++i) values_[i] = row(thread() / 8 + i * 16) + thread() % 8;
    tail_ = row(thread() % kWideTokens) + S::kLayout.value_bytes() / 16;
  }

  /// Stages come in their order.
  __device__ __forceinline__ void bring(int stage, int place) {
    bring_values(stage, place);
    bring_weights(stage, place + GroupSlot<S>::kWeights);
    if constexpr (S::kTailBytes > 0)
      bring_tails<S>(thread(), stage * S::kPieces, pieces_, place + GroupSlot<S>::kTails,
                     staged_ + static_cast<int64_t>(tail_) * 16);
  }

 private:
  static constexpr int kCols = piece_cols(S::kLayout.format);

  __device__ static __forceinline__ int thread() {
    return static_cast<int>(threadIdx.x) % kGroupThreads;
  }

  __device__ __forceinline__ void bring_values(int stage, int place) const {
    const int n = thread() / 8;
    constexpr int kTile = 1024 * S::kParts;  // of 8 rows
    place += n / 8 * kTile + n % 8 * 128 + (thread() % 8 ^ n % 8) * 16;
#pragma unroll
    for (int block = 0; block < kWideCols / 64; ++block) {
      const int col = stage * kWideCols + block * 64;
      if (col / kCols >= pieces_) break;
      const std::byte* from = staged_ + static_cast<int64_t>(col / kCols) * S::kLayout.piece_bytes() +
                              (kCols > 64 ? col % kCols / 64 * 128 * S::kParts : 0);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i >= rows_) break;
#pragma unroll
        for (int low = 0; low < S::kParts; ++low)
          copy_async(
              shared_at<std::byte>(place + block * GroupSlot<S>::kBlockBytes + i * 2 * kTile + low * 1024),
              from + static_cast<int64_t>(values_[i]) * 16 + low * 128);
      }
    }
  }
  __device__ __forceinline__ void bring_weights(int stage, int place) {
    constexpr int kUnits = S::kPieceBytes / 16;  // of a tile
#pragma unroll 1
    for (int i = 0; i < S::kPieces; ++i) {
      const int left = matrix_.tile_bytes - (stage * S::kPieces + i) * S::kPieceBytes;
      if (left <= 0) break;
#pragma unroll 4
      for (int at = thread(); at < S::kTiles * kUnits; at += kGroupThreads) {
        const int tile = at / kUnits, offset = at % kUnits * 16;
        if (tile < tiles_ && offset < left)  // the last piece may be a half
          copy_async(shared_at<std::byte>(place + (tile * S::kPieces + i) * S::kPieceBytes + offset),
                     weights_.at() + static_cast<int64_t>(tile) * weights_.tile_step() + offset);
      }
      weights_.next(matrix_);
    }
  }

  const PackedMatrix& matrix_;
  PieceWalk weights_;
  const std::byte* staged_;
  int tiles_, pieces_;
  int rows_;            // of this thread
  uint32_t values_[4];  // where they are, in units of 16 bytes
  uint32_t tail_;
};

}  // namespace slip::backend::cuda
