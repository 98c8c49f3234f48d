// Activation rows on their way into shared memory: added up, normed, and split into pairs of bf16 in the
// order of the tensor cores' column operand: [step of 16 columns][row n][lane t][high 2t, high 2t + 8, low,
// low] pairs, 64 bytes per row and step. Every block does this for itself: reading a row from the
// second-level cache is cheaper than waiting for one block to do it for all.
//
// A warp takes whole chunks of 64 columns, the same ones whatever the number of rows, lane l columns 2l and
// 2l + 1; a row's sums therefore run in one order in any company.
#pragma once

#include "backend/cuda/kernels/device.h"
#include "backend/cuda/kernels/job.h"

namespace slip::backend::cuda {

/// Shared memory of one block.
struct Stage {
  std::byte* rows = nullptr;  // [padded cols / 16][rows][64 bytes]
  float* sums = nullptr;      // [padded cols / 64 * groups][8 * kTiles]: sums of x over a group of columns
  float* partial = nullptr;   // [kWarps][kMaxRows]
  float* factors = nullptr;   // [2][kMaxRows]
};

struct StagedRows {
  int first;  // row of the step
  int count;
  int listed;  // of a stack, which of its list; else -1
};

/// Sums over the block for every row: factors[n] = 1 / rms.
template <int kTiles>
__device__ void finish_norms(const float (&squares)[8 * kTiles], int count, int cols, float epsilon,
                             const Stage& stage, float* factors) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < 8 * kTiles; ++n) {
    if (n < count) {
      const float sum = warp_sum(squares[n]);
      if (lane == 0) stage.partial[warp * kMaxRows + n] = sum;
    }
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < count) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += stage.partial[w * kMaxRows + threadIdx.x];
    factors[threadIdx.x] = 1.0f / sqrtf(sum / static_cast<float>(cols) + epsilon);
  }
  __syncthreads();
}

/// Columns col and col + 1 of a row; zero past the end. Strides are even and rows aligned.
__device__ __forceinline__ float2 read_two(const float* row, int col, int cols) {
  if (col >= cols) return make_float2(0, 0);
  float2 two = load_fresh(reinterpret_cast<const float2*>(row + col));
  if (col + 1 >= cols) two.y = 0;
  return two;
}
__device__ __forceinline__ float2 read_weights(const float* weights, int col, int cols) {
  if (weights == nullptr) return make_float2(1, 1);
  return make_float2(col < cols ? __ldg(weights + col) : 0, col + 1 < cols ? __ldg(weights + col + 1) : 0);
}

__device__ __forceinline__ float2 read_branch(const Input& in, int row, int col) {
  float2 sum = read_two(in.branch + row * in.branch_stride, col, in.cols);
  for (int part = 1; part < in.branch_parts; ++part) {
    const float2 more = read_two(in.branch + part * in.part_stride + row * in.branch_stride, col, in.cols);
    sum.x += more.x;
    sum.y += more.y;
  }
  return sum;
}

/// x of one row at two columns, before the segment's norm.
__device__ __forceinline__ float2 read_input(const Input& in, int row, int col, const float* factor) {
  float2 x = make_float2(0, 0);
  if (in.rows != nullptr) x = read_two(in.rows + row * in.stride, col, in.cols);
  if (in.branch == nullptr) return x;
  const float2 branch = read_branch(in, row, col);
  if (in.branch_norm == nullptr) {
    x.x += branch.x;
    x.y += branch.y;
  } else {
    const float2 weight = read_weights(in.branch_norm, col, in.cols);
    x.x += branch.x * *factor * weight.x;
    x.y += branch.y * *factor * weight.y;
  }
  x.x *= in.scalar;
  x.y *= in.scalar;
  return x;
}

/// Where lane's two columns of a chunk lie: as floats until they are split, as pairs afterwards. A warp only
/// moves values within its own chunk, so it can split in place.
__device__ __forceinline__ std::byte* piece(const Stage& stage, int chunk, int lane, int n, int count) {
  return stage.rows + (static_cast<int64_t>(chunk * 4 + lane / 8) * count + n) * 64;
}

__device__ __forceinline__ void put_split(const Stage& stage, int chunk, int lane, int n, int count,
                                          float2 x) {
  const Split split = split_bf16(x.x, x.y);
  auto* words = reinterpret_cast<uint32_t*>(piece(stage, chunk, lane, n, count)) + lane % 4 * 4;
  const int half = lane / 4 % 2;
  words[half] = split.high;
  words[2 + half] = split.low;
}

/// The sums of a chunk's groups of columns, of what the tensor cores will see.
template <int kTiles>
__device__ void put_sums(const Stage& stage, int chunk, int lane, int n, int groups, float2 x) {
  const Split split = split_bf16(x.x, x.y);
  float sum = bf16_low(split.high) + bf16_low(split.low) + (bf16_high(split.high) + bf16_high(split.low));
  for (int mask = 8; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (groups == 1) sum += shuffle_xor(sum, 16);
  if (lane % 16 == 0 && lane / 16 < groups) stage.sums[(chunk * groups + lane / 16) * 8 * kTiles + n] = sum;
}

template <int kTiles>
__device__ __noinline__ void stage_rows(const Segment& segment, const MatrixList* list,
                                        const StagedRows& rows, bool keeps, const Stage& stage) {
  constexpr int kRows = 8 * kTiles;
  const Input& in = segment.in;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int chunks = (in.cols + kPaddedCols - 1) / kPaddedCols;
  const int groups = segment.matrix.groups, count = rows.count;
  float* branch_factors = stage.factors;
  float* factors = stage.factors + kMaxRows;
  const auto source_row = [&](int n) {
    if (in.slots == 0) return rows.first + n;
    const int slot = load_fresh(&list->slot[rows.listed][rows.first + n]);
    return slot < 0 ? -1 : (rows.first + n) * in.slots + slot;
  };

  if (in.branch != nullptr && in.branch_norm != nullptr) {
    float squares[kRows] = {};
    for (int chunk = warp; chunk < chunks; chunk += kWarps) {
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
        if (n >= count) continue;
        const float2 x = read_branch(in, rows.first + n, chunk * 64 + 2 * lane);
        squares[n] = fmaf(x.x, x.x, fmaf(x.y, x.y, squares[n]));
      }
    }
    finish_norms<kTiles>(squares, count, in.cols, in.epsilon, stage, branch_factors);
  }

  if (segment.normed) {
    float squares[kRows] = {};
    for (int chunk = warp; chunk < chunks; chunk += kWarps) {
      const int col = chunk * 64 + 2 * lane;
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
        if (n >= count) continue;
        const float2 x = read_input(in, rows.first + n, col, branch_factors + n);
        reinterpret_cast<float2*>(piece(stage, chunk, lane, n, count))[lane % 8] = x;
        squares[n] = fmaf(x.x, x.x, fmaf(x.y, x.y, squares[n]));
      }
    }
    finish_norms<kTiles>(squares, count, in.cols, in.epsilon, stage, factors);
  }

  for (int chunk = warp; chunk < chunks; chunk += kWarps) {
    const int col = chunk * 64 + 2 * lane;
    const float2 weight = read_weights(segment.norm, col, in.cols);
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      if (n >= count) {
        if (groups > 0 && lane < groups) stage.sums[(chunk * groups + lane) * kRows + n] = 0;
        continue;
      }
      float2 x = make_float2(0, 0);
      if (segment.normed) {
        x = reinterpret_cast<const float2*>(piece(stage, chunk, lane, n, count))[lane % 8];
      } else if (const int row = source_row(n); row >= 0) {
        x = read_input(in, row, col, branch_factors + n);
      }
      if (keeps) {
        const int row = rows.first + n;
        for (int i = 0; i < 2 && col + i < in.cols; ++i) {
          if (in.keep != nullptr) in.keep[row * in.keep_stride + col + i] = i == 0 ? x.x : x.y;
          if (in.tap != nullptr) in.tap[row * in.tap_stride + col + i] = i == 0 ? x.x : x.y;
        }
      }
      if (segment.normed) {
        __syncwarp();  // all lanes have read their floats before pairs take their place
        const float factor = factors[n];
        x.x = x.x * factor * weight.x * segment.norm_scale;
        x.y = x.y * factor * weight.y * segment.norm_scale;
        if (keeps && segment.keep_normed != nullptr) {
          for (int i = 0; i < 2 && col + i < in.cols; ++i)
            segment.keep_normed[(rows.first + n) * segment.keep_normed_stride + col + i] = i == 0 ? x.x : x.y;
        }
      }
      put_split(stage, chunk, lane, n, count, x);
      if (groups > 0) put_sums<kTiles>(stage, chunk, lane, n, groups, x);
    }
  }
  __syncthreads();
}

}  // namespace slip::backend::cuda
