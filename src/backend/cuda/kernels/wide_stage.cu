// Staging of wide passes (wide_job.h): one block of threads per row, whose thread t has columns 4 t .. 4 t +
// 3 and so on, as in stage.h, because the order of its sums follows from that. Bytes: every row read once or,
// where the branch has a norm, its branch twice; two bf16 written per column.
#include <algorithm>

#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/stage.h"
#include "backend/cuda/kernels/wide_job.h"

namespace slip::backend::cuda {
namespace {

/// Four columns of a piece as operands to their place: see put_four(). kParts: high and low ones, or one.
template <int kParts>
__device__ __forceinline__ void put_words(const WideTarget& target, std::byte* row, std::byte* piece, int col,
                                          const uint32_t (&one)[kParts], const uint32_t (&two)[kParts]) {
  const int cols = piece_cols(target.layout.format);
  if (target.workers == WideWorkers::kGroups) {
    constexpr int kBlock = 128 * kParts;  // bytes of 64 columns
    std::byte* block = cols < 64 ? row + col / 64 * kBlock : piece + col % cols / 64 * kBlock;
    auto* pairs = reinterpret_cast<uint2*>(block) + col % 64 / 4;
#pragma unroll
    for (int i = 0; i < kParts; ++i) pairs[i * 16] = {one[i], two[i]};
  } else {
    auto* words = reinterpret_cast<uint32_t*>(piece) + col % cols / 32 * 16 * kParts + col % 8 * 2 +
                  col / 16 % 2 * 2 + col / 8 % 2;
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      words[i * 16] = one[i];
      words[i * 16 + 4] = two[i];
    }
  }
}

/// Four columns as operands, and what their groups need.
__device__ __forceinline__ void put_four_wide(const WideTarget& target, std::byte* row, int col, float4 x,
                                              bool wanted) {
  const StagedLayout& layout = target.layout;
  const int cols = piece_cols(layout.format);
  std::byte* piece = row + col / cols * layout.piece_bytes();
  float sum = sum_of(x), back = 0;
  if (in_halves(layout.format)) {
    const HalfScale scale(x);
    const HalfFour four(x, scale);
    if (wanted) put_words<1>(target, row, piece, col, {four.one}, {four.two});
    sum = four.sum;
    back = scale.back;
  } else if (wanted) {
    const auto [one, two] = staged_four(x, staged_scale(layout.groups));
    put_words<2>(target, row, piece, col, {one.high, one.low}, {two.high, two.low});
  }
  if (layout.groups == 0) return;
  const int lanes = group_lanes(layout.groups);
  sum = group_sum(sum, lanes);
  if (!wanted || threadIdx.x % static_cast<unsigned>(lanes) != 0) return;
  const int in_piece = layout.in_piece(), at = col % cols / (kPaddedCols / layout.groups);
  const Split total = split_bf16(sum, 0);
  std::byte* tail = piece + layout.value_bytes();
  auto* halves = reinterpret_cast<uint16_t*>(tail);
  halves[at] = static_cast<uint16_t>(total.high);
  halves[in_piece + at] = static_cast<uint16_t>(total.low);
  if (at > 0) return;
  for (int t = in_piece; t < 4; ++t) reinterpret_cast<uint32_t*>(tail)[t] = 0;
  if (in_halves(layout.format)) *reinterpret_cast<float*>(tail + StagedLayout::kSumBytes) = back;
}

/// Sum over the block in the order of row_factor(), on every thread.
__device__ __forceinline__ float factor_of(float squares, float* partial, int cols, float epsilon) {
  const float mine = warp_sum(squares);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += partial[w];
  return norm_factor(sum, cols, epsilon);
}

__device__ __forceinline__ float4 branch_at(const Input& in, int row, int col) {
  float4 sum = read_four(in.branch + row * in.branch_stride, col, in.cols, true);
  for (int part = 1; part < in.branch_parts; ++part) {
    const float4 add =
        read_four(in.branch + part * in.part_stride + row * in.branch_stride, col, in.cols, true);
    sum = make_float4(sum.x + add.x, sum.y + add.y, sum.z + add.z, sum.w + add.w);
  }
  return sum;
}

__device__ __forceinline__ float4 weighted(float4 x, float4 weight, float scale) {
  return make_float4(x.x * weight.x * scale, x.y * weight.y * scale, x.z * weight.z * scale,
                     x.w * weight.w * scale);
}

/// One slice of a row.
__device__ void stage_slice(const WideStage& job, int row, int slice, float* partial) {
  const Input& in = job.in;
  const int thread = static_cast<int>(threadIdx.x), at_once = 4 * static_cast<int>(blockDim.x);
  int padded = (in.cols + 3) / 4 * 4;
  for (int i = 0; i < job.targets; ++i)
    padded = max(padded, job.target[i].pieces * piece_cols(job.target[i].layout.format));
  const float* source =
      in.rows != nullptr ? in.rows + row * in.stride + static_cast<int64_t>(slice) * in.cols : nullptr;
  const bool norms_branch = in.branch != nullptr && in.branch_norm != nullptr;
  float factor = 1;
  if (norms_branch) {
    float squares = 0;
    for (int col = thread * 4; col < in.cols; col += kTurnCols)
      squares = squares_of(branch_at(in, row, col), squares);
    factor = factor_of(squares, partial, in.cols, in.epsilon);
  }
  float squares = 0;
  for (int turn = 0; turn < padded; turn += at_once) {
    const int col = turn + thread * 4;
    if (col - thread % 32 * 4 >= padded) break;  // the same for a whole warp
    float4 x = read_four(source, col, in.cols, source != nullptr);
    if (in.branch != nullptr) {
      const float4 b = branch_at(in, row, col), weight = read_weights(in.branch_norm, col, in.cols);
      x = make_float4(
          (x.x + b.x * factor * weight.x) * in.scalar, (x.y + b.y * factor * weight.y) * in.scalar,
          (x.z + b.z * factor * weight.z) * in.scalar, (x.w + b.w * factor * weight.w) * in.scalar);
    }
    if (in.keep != nullptr) store_four(in.keep + row * in.keep_stride, col, in.cols, x);
    if (in.tap != nullptr) store_four(in.tap + row * in.tap_stride, col, in.cols, x);
    if (job.normed) squares = squares_of(x, squares);
    for (int i = 0; i < job.targets; ++i) {
      const WideTarget& target = job.target[i];
      const int own_padded = target.pieces * piece_cols(target.layout.format);
      if (col - thread % 32 * 4 >= own_padded) continue;
      const float4 y =
          job.normed ? weighted(x, read_weights(target.norm, col, in.cols), target.norm_scale) : x;
      std::byte* to = target.staged + row * target.row_bytes +
                      static_cast<int64_t>(slice) * target.pieces * target.layout.piece_bytes();
      put_four_wide(target, to, col, y, col < own_padded);
      if (i == 0 && job.normed_rows != nullptr)
        store_four(job.normed_rows + row * job.normed_stride, col, in.cols, y);
    }
  }
  if (!job.normed) return;
  const float own = factor_of(squares, partial + kWarps, in.cols, in.epsilon);
  if (thread == 0) job.factors[row] = own;
  if (job.normed_rows == nullptr) return;
  float* kept = job.normed_rows + row * job.normed_stride;
  for (int col = thread * 4; col < in.cols; col += kTurnCols) {
    for (int i = col; i < min(col + 4, in.cols); ++i) kept[i] *= own;
  }
}

__global__ void __launch_bounds__(kBlockThreads) wide_stage(const __grid_constant__ WideStage job) {
  auto* partial = shared_at<float>(0);  // [2][kWarps]
  const int slices = job.target[0].slices;
  for (int slice = 0; slice < slices; ++slice) stage_slice(job, static_cast<int>(blockIdx.x), slice, partial);
}

/// A thread has its columns to itself, and rows only move forward.
__global__ void __launch_bounds__(kWideThreads) wide_keep(const __grid_constant__ WideKeep job) {
  const int col = static_cast<int>(blockIdx.x) * kWideThreads + static_cast<int>(threadIdx.x);
  if (col >= job.cols) return;
  for (int i = 0; i < job.rows; ++i)
    job.data[i * job.stride + col] = job.data[job.from[i] * job.stride + col];
}

}  // namespace

void start(Gpu& gpu, const WideStage& job) {
  // Only norms depend on who has which columns.
  int threads = kBlockThreads;
  if (!job.normed && job.in.branch == nullptr && job.targets == 1) {
    const int padded = job.target[0].pieces * piece_cols(job.target[0].layout.format);
    threads = std::min(threads, (padded + 127) / 128 * 32);
  }
  launch(gpu, {.blocks = job.rows, .threads = threads, .shared_bytes = 2 * kWarps * sizeof(float)},
         wide_stage, job);
}

void start(Gpu& gpu, const WideKeep& job) {
  launch(gpu, {.blocks = (job.cols + kWideThreads - 1) / kWideThreads, .threads = kWideThreads}, wide_keep,
         job);
}

}  // namespace slip::backend::cuda
