// Staging (see stage.h) of any number of rows of any input, where nothing is known of them when the kernel is
// compiled: what is left to the ways of stage_known.h.
#pragma once

#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

/// Staging in blocks of kRows rows by kTurns turns of the threads, whose loads are under way together. One
/// of the two is 1, and an item is a row or a turn.
template <int kAllTiles, bool kHalves, int kRows, int kTurns>
struct Stager {
  static constexpr int kTiles = column_tiles(like(kHalves), kAllTiles),
                       kTileRows = rows_of_tile(like(kHalves));
  static constexpr int kItems = kRows * kTurns;
  static constexpr int kPartsAtOnce = 2;  // of a branch
  static_assert(kRows == 1 || kTurns == 1);
  using Items = float4[kItems];
  const Segment& segment;
  const int8_t* chosen;  // [listed][kMaxRows]: slots of a list, in shared memory
  const StagedRows& rows;
  const Stage& stage;
  const bool keeps;
  float* partial;  // [2][kMaxRows][kWarps]
  const int thread = thread_here();
  const int cols = segment.in.cols, padded = segment.matrix.padded_cols();
  int first = 0, turn = 0;  // of the block at hand
  Items held = {};
  float4 weights[kTurns] = {}, branch_weights[kTurns] = {};

  __device__ __forceinline__ int row_of(int item) const { return first + item % kRows; }
  __device__ __forceinline__ int col_of(int item) const {
    return ((turn + item / kRows) * kBlockThreads + thread) * 4;
  }
  __device__ __forceinline__ int source_row(int n) const {
    if (segment.in.slots == 0) return rows.first + n;
    const int slot = chosen[rows.listed * kMaxRows + rows.first + n];
    return slot < 0 ? -1 : (rows.first + n) * segment.in.slots + slot;
  }
  /// A place for four columns of a row until they are split: the row's own operands will lie there, of the
  /// 64 columns that half a warp has. Operands of halves are too small for that.
  __device__ __forceinline__ float4* stash(int item) const {
    const int col = col_of(item), n = row_of(item), q = thread % 16, half = col / 64 * 2 + q / 8;
    return shared_at<float4>(stage.rows) + (half * kTiles + n / 4) * 32 +
           ((q / 4 % 2 * 16 + n % 4 * 4 + q % 4) ^ swizzle(half));
  }
  __device__ __forceinline__ bool inside(int item) const {
    return row_of(item) < rows.count && col_of(item) < padded;
  }

  __device__ __forceinline__ void load_rows() {
    const float* from = segment.in.rows;
    const int stride = static_cast<int>(segment.in.stride);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const bool wanted = row_of(i) < rows.count && from != nullptr;
      const int row = wanted ? source_row(row_of(i)) : -1;
      held[i] = read_four(from + row * stride, col_of(i), cols, row >= 0);
    }
  }
  __device__ __forceinline__ void load_weights() {
    const float *norm = segment.normed ? segment.norm : nullptr, *branch_norm = segment.in.branch_norm;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      weights[i] = read_weights(norm, col_of(i * kRows), cols);
      branch_weights[i] = read_weights(branch_norm, col_of(i * kRows), cols);
    }
  }
  __device__ __forceinline__ void load_branch(Items& branch) const {
    const int stride = static_cast<int>(segment.in.branch_stride);
    const int64_t part_stride = segment.in.part_stride;
    const float* from = segment.in.branch + rows.first * stride;
    const int parts = segment.in.branch_parts;
#pragma unroll 1
    for (int part = 0; part < parts; part += kPartsAtOnce, from += kPartsAtOnce * part_stride) {
      float4 more[kPartsAtOnce][kItems];
#pragma unroll
      for (int p = 0; p < kPartsAtOnce; ++p) {
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          more[p][i] = read_four(from + p * part_stride + row_of(i) * stride, col_of(i), cols,
                                 row_of(i) < rows.count && part + p < parts);
        }
      }
#pragma unroll
      for (int p = 0; p < kPartsAtOnce; ++p) {
        if (part + p >= parts) break;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          const float4 &add = more[p][i], sum = branch[i];
          branch[i] =
              part + p == 0 ? add : make_float4(sum.x + add.x, sum.y + add.y, sum.z + add.z, sum.w + add.w);
        }
      }
    }
  }

  __device__ __forceinline__ void add_squares(float (&squares)[kRows], const Items& x) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) squares[i % kRows] = squares_of(x[i], squares[i % kRows]);
  }
  __device__ __forceinline__ void leave_squares(const float (&squares)[kRows], float* to) const {
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      if (first + n >= rows.count) continue;
      const float sum = warp_sum(squares[n]);
      if (thread % 32 == 0) *partial_of(to, first + n, thread / 32) = sum;
    }
  }

  __device__ __forceinline__ void add_branch(const Items& branch, const float (&factors)[kRows]) {
    const float scalar = segment.in.scalar;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const float scale = factors[i % kRows];
      const float4 &weight = branch_weights[i / kRows], &b = branch[i];  // 1 without a norm
      float4& x = held[i];
      x = make_float4((x.x + b.x * scale * weight.x) * scalar, (x.y + b.y * scale * weight.y) * scalar,
                      (x.z + b.z * scale * weight.z) * scalar, (x.w + b.w * scale * weight.w) * scalar);
    }
  }
  __device__ __forceinline__ void weigh() {
    const float scale = segment.norm_scale;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const float4 &x = held[i], &weight = weights[i / kRows];
      held[i] = make_float4(x.x * weight.x * scale, x.y * weight.y * scale, x.z * weight.z * scale,
                            x.w * weight.w * scale);
    }
  }
  __device__ __forceinline__ void keep(float* to, int64_t row_stride) const {
    const int stride = static_cast<int>(row_stride);
    if (!keeps || to == nullptr) return;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (row_of(i) < rows.count)
        store_four(to + (rows.first + row_of(i)) * stride, col_of(i), cols, held[i]);
    }
  }
  __device__ __forceinline__ void stash_block(const Items& x) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (inside(i)) *stash(i) = x[i];
    }
  }
  __device__ __forceinline__ void take_stash(Items& x) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) x[i] = inside(i) ? *stash(i) : make_float4(0, 0, 0, 0);
    __syncwarp();  // all stashes have been read before operands take their place
  }

  /// Whether a warp has something of an item: the same for all its lanes.
  __device__ __forceinline__ bool has(int item) const {
    return row_of(item) < rows.count && col_of(item) - thread % 32 * 4 < padded;
  }

  /// All items together, so that their shuffles overlap.
  __device__ __forceinline__ void put_block() const {
    float sums[kItems];
    const int groups = segment.matrix.groups;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if constexpr (kHalves) {
        if (!has(i)) continue;
        const HalfScale scale(held[i]);
        const HalfFour four(held[i], scale);
        sums[i] = four.sum;
        put_four<kTiles>(stage, col_of(i), row_of(i), four, inside(i));
        put_scale<kTiles>(stage, col_of(i), row_of(i), scale);
      } else {
        sums[i] = sum_of(held[i]);
        put_four<kTiles>(stage, col_of(i), row_of(i), staged_four(held[i], staged_scale(groups)), inside(i));
      }
    }
    if (groups == 0) return;
    const int lanes = group_lanes(groups);
#pragma unroll
    for (int mask = 1; mask < 16; mask *= 2) {  // as group_sum() does it
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if (!has(i)) continue;
        const float more = shuffle_xor(sums[i], mask);
        if (mask < lanes) sums[i] += more;
      }
    }
    if ((thread & (lanes - 1)) != 0) return;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (inside(i)) put_group(stage, segment.matrix, kTiles, kTileRows, col_of(i), row_of(i), sums[i]);
    }
  }

  /// The rows that are held, with their branch, to where they belong.
  __device__ __forceinline__ void finish_block(const Items& branch, const float (&factors)[kRows],
                                               float (&squares)[kRows]) {
    if (segment.in.branch != nullptr) add_branch(branch, factors);
    keep(segment.in.keep, segment.in.keep_stride);
    keep(segment.in.tap, segment.in.tap_stride);
    if (segment.normed) {
      add_squares(squares, held);
      weigh();
      keep(segment.keep_normed, segment.keep_normed_stride);
    }
    put_block();
  }

  /// What the branch of each row of the block is multiplied with: 1 where it has no norm.
  __device__ __forceinline__ void load_factors(bool norms_branch, float (&factors)[kRows]) const {
#pragma unroll
    for (int n = 0; n < kRows; ++n)
      factors[n] = norms_branch && first + n < rows.count
                       ? row_factor(partial, first + n, cols, segment.in.epsilon)
                       : 1;
  }

  /// Whether all of it is one block.
  __device__ __forceinline__ bool at_once() const {
    return padded <= kTurns * kTurnCols && rows.count <= kRows;
  }

  /// One block, which stays in registers.
  __device__ __forceinline__ void run_once() {
    const bool has_branch = segment.in.branch != nullptr,
               norms_branch = has_branch && segment.in.branch_norm != nullptr;
    Items branch = {};
    load_rows();
    load_weights();
    if (has_branch) load_branch(branch);
    if (norms_branch) {
      float squares[kRows] = {};
      add_squares(squares, branch);
      leave_squares(squares, partial);
      __syncthreads();
    }
    float squares[kRows] = {}, factors[kRows];
    load_factors(norms_branch, factors);
    finish_block(branch, factors, squares);
    if (segment.normed) leave_squares(squares, partial + kWarps * kMaxRows);
  }

  /// Two rounds where the branch has a norm: the first sums it up, for its factor, and stashes it where there
  /// is room; else it is read again.
  __device__ __forceinline__ void run_blocks() {
    const int turns = (padded + kTurnCols - 1) / kTurnCols;
    const bool has_branch = segment.in.branch != nullptr,
               norms_branch = has_branch && segment.in.branch_norm != nullptr;
#pragma unroll 1
    for (int round = norms_branch ? 0 : 1; round < 2; ++round) {
#pragma unroll 1
      for (first = 0; first < rows.count; first += kRows) {
        float squares[kRows] = {}, factors[kRows] = {};
        if (round == 1) load_factors(norms_branch, factors);
#pragma unroll 1
        for (turn = 0; turn < turns; turn += kTurns) {
          Items branch = {};
          if (has_branch && (round == 0 || !norms_branch || kHalves)) load_branch(branch);
          if (round == 0) {
            add_squares(squares, branch);
            if (!kHalves) stash_block(branch);
            continue;
          }
          load_rows();
          load_weights();
          if (norms_branch && !kHalves) take_stash(branch);
          finish_block(branch, factors, squares);
        }
        if (round == 0 || segment.normed) leave_squares(squares, partial + round * kWarps * kMaxRows);
      }
      if (round == 0) __syncthreads();
    }
  }
};

}  // namespace slip::backend::cuda
