// Activation rows on their way into shared memory: added up, weighted, and made into what the tensor cores
// take. As pairs of bf16 a column tile holds four rows: columns 0 to 3 the high parts, 4 to 7 the low ones,
// whose products are added at the end. As halves, where the format of the weights says so, it holds eight:
// every stretch of 128 columns of a row, which a warp has, times the power of two that brings its largest
// value just below the largest half. Either way a row's bits do not depend on its company, and up to four or
// eight rows cost one mma. [32 columns][tile][lane][two steps of 16 columns][registers b0, b1], lanes in the
// order of swizzle(). Beside them, for every group of columns with a scale: sum(x) as a column operand for
// the biases (see piece.h), of halves the sum of what they have become; and what makes up for the powers of
// two: [stretch][tile][row] floats. Where weights are codes, pairs are staged times kStagedScale.
//
// Every block does this for itself: reading a row from the second-level cache is cheaper than waiting for one
// block to do it for all. A thread has columns 4 i .. 4 i + 3 for i = thread, thread + 512, ... whatever the
// number of rows. The factor of the segment's own norm is left to the epilogue, which has it from the sums of
// squares; so there is one barrier for the norm of the branch, and one when all is there.
#pragma once

#include "backend/cuda/kernels/device.h"
#include "backend/cuda/kernels/job.h"

namespace slip::backend::cuda {

/// What rows are multiplied with before they are split, for a matrix of so many groups per 64 columns.
__device__ __forceinline__ float staged_scale(int groups) {
  return groups == 0 ? 1.0f : kStagedScale;
}

/// Lane l of the operands of 32 columns lies at l ^ swizzle(which 32 columns): else the lanes of a warp,
/// which has four times 32 columns to store, would meet in the same banks.
__host__ __device__ constexpr int swizzle(int columns) {
  return (columns & 1) | (columns & 2) << 1;
}
inline constexpr int kStageAlignment = 512;  // so places may be swizzled as such: the operands of 32 columns

/// Where the description of a product is.
__device__ __forceinline__ int job_place(const SharedPlan& plan, int product) {
  return plan.jobs +
         static_cast<int>(sizeof(OwnJob)) * static_cast<int>(static_cast<unsigned>(product) % kJobsKept);
}

/// Where the rows of a product lie in shared memory.
struct Stage {
  int rows = 0, biases = 0, scales = 0;
};
/// Of that, the sums of a tile's rows in the groups of a piece: [row][high parts, low parts][group].
__host__ __device__ constexpr int sum_bytes(int groups_of_piece, int rows) {
  return 4 * groups_of_piece * rows;
}
__host__ __device__ constexpr int scale_bytes(int tiles) {
  return tiles * rows_of_tile(Format::kAffine4Halves) * static_cast<int>(sizeof(float));
}
/// `end`: where something else may begin. `tiles`: of the kernel; see column_tiles().
__host__ __device__ inline Stage stage_at(int work, const Segment& segment, int tiles, int& end) {
  const PackedMatrix& matrix = segment.matrix;
  const int in_piece = groups_of_piece(matrix.format, matrix.groups);
  tiles = column_tiles(matrix.format, tiles);
  Stage stage;
  stage.rows = work;
  stage.biases = stage.rows + staged_cols(segment) * 16 * tiles;
  stage.scales =
      stage.biases + staged_pieces(segment) * sum_bytes(in_piece, rows_of_tile(matrix.format)) * tiles;
  end = stage.scales;
  if (in_halves(matrix.format))
    end += (staged_cols(segment) + kStretchCols - 1) / kStretchCols * scale_bytes(tiles);
  return stage;
}
/// The same in a running step; `tiles`: column tiles. The rows lie before the biases.
__device__ __forceinline__ Stage staged_in(const Space& space, int tiles) {
  return {space.biases - space.padded * 16 * tiles, space.biases, space.scales};
}

struct StagedRows {
  int first;  // row of the step
  int count;
  int listed;  // of a stack, which of its list; else -1
};

template <typename T>
__device__ __forceinline__ T* shared_at(int place) {
  return reinterpret_cast<T*>(shared_memory() + place);
}

/// Columns col .. col + 3 of a row; zero past the end. Rows start on 16 bytes and have whole fours of
/// columns.
__device__ __forceinline__ float4 read_four(const float* row, int col, int cols, bool wanted) {
  float4 four = make_float4(0, 0, 0, 0);
  if (wanted && col < cols) four = load_fresh(reinterpret_cast<const float4*>(row + col));
  return four;
}
/// The same of a norm, 1 without one.
__device__ __forceinline__ float4 read_weights(const float* weights, int col, int cols) {
  float4 four = make_float4(1, 1, 1, 1);
  if (weights != nullptr && col < cols) four = __ldg(reinterpret_cast<const float4*>(weights + col));
  return four;
}
__device__ __forceinline__ float squares_of(float4 x, float sum) {
  return fmaf(x.x, x.x, fmaf(x.y, x.y, fmaf(x.z, x.z, fmaf(x.w, x.w, sum))));
}
__device__ __forceinline__ void store_four(float* row, int col, int cols, float4 x) {
  if (col < cols) *reinterpret_cast<float4*>(row + col) = x;
}

/// 1 / rms, of a sum of squares.
__device__ __forceinline__ float norm_factor(float sum, int cols, float epsilon) {
  return inverse_root(quick_quotient(sum, static_cast<float>(cols)) + epsilon);
}

/// Sums of squares that all warps left: [row][kWarps].
__device__ __forceinline__ float* partial_of(float* partial, int row, int warp) {
  return partial + row * kWarps + warp;
}
/// 1 / rms of a row, from these; warps are added up in their order.
__device__ __forceinline__ float row_factor(const float* partial, int row, int cols, float epsilon) {
  float4 part[kWarps / 4];
#pragma unroll
  for (int w = 0; w < kWarps / 4; ++w) part[w] = reinterpret_cast<const float4*>(partial + row * kWarps)[w];
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps / 4; ++w) sum = (((sum + part[w].x) + part[w].y) + part[w].z) + part[w].w;
  return norm_factor(sum, cols, epsilon);
}
/// What four columns add to the sum of their group.
__device__ __forceinline__ float sum_of(float4 x) {
  return (x.x + x.y) + (x.z + x.w);
}
/// Lanes that have a group's columns, four each, where there are one or two groups in 64.
__device__ __forceinline__ int group_lanes(int groups) {
  return groups == 1 ? 16 : 8;
}
/// Their sum, on each of them.
__device__ __forceinline__ float group_sum(float sum, int lanes) {
#pragma unroll
  for (int mask = 1; mask < 16; mask *= 2) {
    const float more = shuffle_xor(sum, mask);
    if (mask < lanes) sum += more;
  }
  return sum;
}

/// Four columns as operands: pairs of bf16 of their high and of their low parts.
struct StagedFour {
  Split one, two;
};
__device__ __forceinline__ StagedFour staged_four(float4 x, float scale) {
  return {split_bf16(x.x * scale, x.y * scale), split_bf16(x.z * scale, x.w * scale)};
}

/// The power of two that a stretch of columns of a row, which a warp has, is multiplied with to become
/// halves: its largest value becomes 2^14 or more, and less than 2^15. And what products of these with codes
/// are multiplied with in the end. Whole warps agree on it; far below and above all activations, where floats
/// end, it stays what it is.
struct HalfScale {
  float to_halves, back;

  __device__ __forceinline__ explicit HalfScale(float4 x) {
    constexpr uint32_t kLeast = 32, kMost = 240, kBits = 23;  // of exponents as floats have them
    constexpr uint32_t kToHalves = 268, kBack = 10;           // 2^(141 - e), and 2^(e - 141) / code_unit()
    static_assert(code_unit(Format::kAffine4Halves) == 0x1p-24f);
    const float highest = fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w)));
    const uint32_t exponent = min(max(warp_max(__float_as_uint(highest)) >> kBits, kLeast), kMost);
    to_halves = __uint_as_float((kToHalves - exponent) << kBits);
    back = __uint_as_float((exponent + kBack) << kBits);
  }
};
/// Four columns as halves, and the sum of what they are then.
struct HalfFour {
  uint32_t one, two;
  float sum;

  __device__ __forceinline__ HalfFour(float4 x, const HalfScale& scale)
      : one(pack_halves(x.x * scale.to_halves, x.y * scale.to_halves)),
        two(pack_halves(x.z * scale.to_halves, x.w * scale.to_halves)) {
    const float2 low = unpack_halves(one), high = unpack_halves(two);
    sum = ((low.x + low.y) + (high.x + high.y)) * (scale.back * code_unit(Format::kAffine4Halves));
  }
};

/// Where four columns of row n begin in a tile of kRows rows: words of a lane, and those of the next one.
template <int kTiles, int kRows>
__device__ __forceinline__ uint32_t* words_of_four(const Stage& stage, int col, int n, int& lane) {
  lane = (n % kRows * 4 + col % 8 / 2) ^ swizzle(col / 32);
  return shared_at<uint32_t>(stage.rows) + (col / 32 * kTiles + n / kRows) * 128 + col / 16 % 2 * 2 +
         col / 8 % 2;
}
/// Four columns of row n to their place.
template <int kTiles>
__device__ __forceinline__ void put_four(const Stage& stage, int col, int n, const StagedFour& four,
                                         bool wanted) {
  if (!wanted) return;
  int lane;
  uint32_t* words = words_of_four<kTiles, 4>(stage, col, n, lane);
  words[lane * 4] = four.one.high;
  words[(lane ^ 1) * 4] = four.two.high;
  words[lane * 4 + 64] = four.one.low;
  words[(lane ^ 1) * 4 + 64] = four.two.low;
}
template <int kTiles>
__device__ __forceinline__ void put_four(const Stage& stage, int col, int n, const HalfFour& four,
                                         bool wanted) {
  if (!wanted) return;
  int lane;
  uint32_t* words = words_of_four<kTiles, 8>(stage, col, n, lane);
  words[lane * 4] = four.one;
  words[(lane ^ 1) * 4] = four.two;
}
/// What makes up for the power of two of a stretch of row n.
template <int kTiles>
__device__ __forceinline__ void put_scale(const Stage& stage, int col, int n, const HalfScale& scale) {
  if (thread_here() % 32 != 0) return;
  shared_at<float>(stage.scales + col / kStretchCols * scale_bytes(kTiles))[n] = scale.back;
}

/// The sum of the group of columns around `col`. `tiles`, `rows`: column tiles, and rows of one.
__device__ __forceinline__ void put_group(const Stage& stage, const PackedMatrix& matrix, int tiles, int rows,
                                          int col, int n, float sum) {
  const int group = col / 64 * matrix.groups + (matrix.groups == 2 ? col / 32 % 2 : 0);
  const Split total = split_bf16(sum, 0);
  const int in_piece = groups_of_piece(matrix.format, matrix.groups), at = group % in_piece;
  auto* halves =
      shared_at<uint16_t>(stage.biases + (group / in_piece * tiles * rows + n) * sum_bytes(in_piece, 1));
  halves[at] = static_cast<uint16_t>(total.high);
  halves[in_piece + at] = static_cast<uint16_t>(total.low);
}

}  // namespace slip::backend::cuda
