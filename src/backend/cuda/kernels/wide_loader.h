// What a block of a wide product multiplies, and how it comes to shared memory, stage by stage.
#pragma once

#include "backend/cuda/kernels/stage.h"
#include "backend/cuda/kernels/waiting.h"
#include "backend/cuda/kernels/wide_job.h"

namespace slip::backend::cuda {

inline constexpr int kWideSharedBytes = 227 << 10;

template <Format kFormat, int kGroups, int kSubtiles>
struct WideShape {
  static constexpr StagedLayout kLayout{kFormat, kGroups};
  static constexpr int kPieces = kWideCols / piece_cols(kFormat);  // of a stage
  static constexpr int kPieceGroups = kLayout.in_piece();
  static constexpr int kHeaderBytes = kPieceGroups * 64;                 // of a subtile
  static constexpr int kPieceBytes = kSubtiles * (1024 + kHeaderBytes);  // of a tile
  static constexpr int kTiles = kWideOutputs / 16 / kSubtiles;           // of a block
  static constexpr int kWeightBytes = kTiles * kPieces * kPieceBytes;
  static constexpr bool kHalves = in_halves(kFormat);
  static constexpr int kParts = kLayout.parts();  // of a row's values
  static constexpr int kValueBytes = kWideTokens * kWideCols * 2 * kParts;
  static constexpr int kSumBytes = kPieces * kWideTokens * StagedLayout::kSumBytes;  // of the tails
  static constexpr int kTailBytes = kPieces * kWideTokens * kLayout.tail_bytes();
  static constexpr int kStageBytes = kWeightBytes + kValueBytes + kTailBytes;
  static constexpr int kStages = kWideSharedBytes / kStageBytes < 4 ? kWideSharedBytes / kStageBytes : 4;
  static constexpr int kSharedBytes = kStages * kStageBytes;
};

/// Calls `use` with a format and its groups in 64 columns as constants.
template <typename Use>
void with_format(Format format, int groups, const Use& use) {
  using enum Format;
  const auto of_groups = [&]<Format kFormat>() {
    return groups == 1 ? use.template operator()<kFormat, 1>() : use.template operator()<kFormat, 2>();
  };
  switch (format) {
    case kBf16: return use.template operator()<kBf16, 0>();
    case kAffine4: return of_groups.template operator()<kAffine4>();
    case kAffine8: return of_groups.template operator()<kAffine8>();
    case kAffine4Halves: return of_groups.template operator()<kAffine4Halves>();
    case kAffine8Halves: return of_groups.template operator()<kAffine8Halves>();
  }
}

/// What a block multiplies.
struct WideUnit {
  const std::byte* weights = nullptr;  // of the matrix
  int first_tile = 0, tiles = 0;       // that exist
  const std::byte* staged = nullptr;   // of the slice
  int first = 0, count = 0;            // rows, or places in the list of pairs
  float* out = nullptr;
};

/// Unit `index` of a product; false where there is none.
template <typename S>
__device__ bool find_wide_unit(const WideProduct& job, int index, WideUnit& unit) {
  const PackedMatrix& matrix = job.matrix;
  const int tall = (matrix.tiles + S::kTiles - 1) / S::kTiles;
  unit.first_tile = index % tall * S::kTiles;
  unit.tiles = min(S::kTiles, matrix.tiles - unit.first_tile);
  index /= tall;
  unit.weights = matrix.data;
  unit.staged = job.staged;
  unit.out = job.out;
  if (matrix.count > 1) {
    if (index >= *job.choices.tile_count) return false;
    const WideTile tile = job.choices.tiles[index];
    unit.weights += tile.matrix * matrix.matrix_bytes();
    unit.first = tile.first;
    unit.count = tile.count;
    return true;
  }
  const int wide = (job.rows + kWideTokens - 1) / kWideTokens, slice = index / wide;
  unit.first = index % wide * kWideTokens;
  unit.count = min(kWideTokens, job.rows - unit.first);
  unit.weights += slice * matrix.matrix_bytes();
  unit.staged += static_cast<int64_t>(slice) * matrix.pieces * S::kLayout.piece_bytes();
  unit.out += slice * job.slice_stride;
  return true;
}

/// Row `n` of the unit's, and where its result goes; those that are missing are like the last one.
__device__ __forceinline__ int wide_row(const WideProduct& job, const WideUnit& unit, int n) {
  const int at = unit.first + min(n, unit.count - 1);
  return job.matrix.count > 1 ? job.choices.pairs[at] : at;
}

/// Which of the staged rows that is: pairs of a row and an expert may have it in common.
__device__ __forceinline__ int staged_row(const WideProduct& job, const WideUnit& unit, int n) {
  return wide_row(job, unit, n) / job.pairs_per_row;
}

/// Brings the tails of a stage's pieces, of a row each by `thread`: sums as [piece][row][16 bytes], then of
/// halves what makes up for their power of two, alike. `from`: the row's first one.
template <typename S>
__device__ __forceinline__ void bring_tails(int thread, int first, int pieces, int place,
                                            const std::byte* from) {
  const int part = thread / kWideTokens, piece = first + part;
  if (part >= S::kPieces || piece >= pieces) return;
  from += static_cast<int64_t>(piece) * S::kLayout.piece_bytes();
  copy_async(shared_at<std::byte>(place + thread * StagedLayout::kSumBytes), from);
  if constexpr (S::kHalves)
    copy_async(shared_at<std::byte>(place + S::kSumBytes + thread * StagedLayout::kSumBytes),
               from + StagedLayout::kSumBytes);
}
/// Of those the latter of row `n` of piece `piece`; `tails`: of the stage.
template <typename S>
__device__ __forceinline__ float tail_back(int tails, int piece, int n) {
  return *shared_at<const float>(tails + S::kSumBytes + (piece * kWideTokens + n) * StagedLayout::kSumBytes);
}

/// Brings stage after stage to shared memory. Values lie as [32 columns][8 rows][high, low][lane], 16 bytes
/// each.
template <typename S>
class WideLoader {
 public:
  __device__ WideLoader(const WideProduct& job, const WideUnit& unit)
      : matrix_(job.matrix),
        weights_(job.matrix, unit.weights, unit.first_tile),
        tiles_(unit.tiles),
        pieces_(job.matrix.pieces),
        all_rows_(unit.count > kWideTokens / 2) {
    const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
    const auto row = [&](int n) {
      return unit.staged + static_cast<int64_t>(staged_row(job, unit, n)) * job.row_bytes;
    };
#pragma unroll
    for (int i = 0; i < S::kParts; ++i) {
      const int at = warp + 8 * i;  // of 8 rows, high or low
      values_[i] = row(at / S::kParts * 8 + lane / 4) + at % S::kParts * 64 + lane % 4 * 16;
    }
    tail_ = row(thread % kWideTokens) + S::kLayout.value_bytes();
  }

  /// Stages come in their order.
  __device__ __forceinline__ void bring(int stage, int place) {
    const int thread = static_cast<int>(threadIdx.x), first = stage * S::kPieces;
    constexpr int kUnits = S::kPieceBytes / 16;  // of a tile
#pragma unroll 1
    for (int i = 0; i < S::kPieces; ++i) {
      const int left = matrix_.tile_bytes - (first + i) * S::kPieceBytes;  // the last piece may be a half
      if (left <= 0) break;
#pragma unroll
      for (int unit = 0; unit < (S::kTiles * kUnits + kWideThreads - 1) / kWideThreads; ++unit) {
        const int at = thread + unit * kWideThreads, tile = at / kUnits, offset = at % kUnits * 16;
        if (tile < tiles_ && offset < left)
          copy_async(shared_at<std::byte>(place + (tile * S::kPieces + i) * S::kPieceBytes + offset),
                     weights_.at() + static_cast<int64_t>(tile) * weights_.tile_step() + offset);
      }
      weights_.next(matrix_);
    }
    place += S::kWeightBytes;
    constexpr int kChunks = piece_cols(S::kLayout.format) / 32;  // of a piece
    // The second half of the rows may not be there.
    const bool wanted = S::kParts > 1 || thread < kWideThreads / 2 || all_rows_;
#pragma unroll
    for (int i = 0; i < 4 * S::kParts; ++i) {
      const int chunk = i / S::kParts, piece = first + chunk / kChunks;
      if (piece < pieces_ && wanted && (i % S::kParts == 0 || all_rows_))
        copy_async(shared_at<std::byte>(place + (i * kWideThreads + thread) * 16),
                   values_[i % S::kParts] + static_cast<int64_t>(piece) * S::kLayout.piece_bytes() +
                       chunk % kChunks * 64 * S::kParts);
    }
    if constexpr (S::kTailBytes > 0) bring_tails<S>(thread, first, pieces_, place + S::kValueBytes, tail_);
  }

 private:
  const PackedMatrix& matrix_;
  PieceWalk weights_;
  int tiles_, pieces_;
  bool all_rows_;
  const std::byte* values_[S::kParts];  // of this thread's rows
  const std::byte* tail_;
};

}  // namespace slip::backend::cuda
