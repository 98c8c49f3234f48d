// Activation rows on their way into shared memory: added up, weighted, and split into pairs of bf16 as the
// tensor cores take them. A column tile holds four rows: columns 0 to 3 the high parts, 4 to 7 the low ones,
// whose products are added at the end; so a row's bits do not depend on its company, and up to four rows cost
// one mma. [32 columns][tile][lane][two steps of 16 columns][registers b0, b1]. Beside them, for every group
// of columns with a scale: what its sums start from, -offset * sum(x) (see piece.h), and sum(x) itself as a
// column operand for the biases.
//
// Every block does this for itself: reading a row from the second-level cache is cheaper than waiting for one
// block to do it for all. A thread has columns 4 i .. 4 i + 3 for i = thread, thread + 512, ... whatever the
// number of rows. The factor of the segment's own norm is left to the epilogue, which has it from the sums of
// squares; so there is one barrier for the norm of the branch, and one when all is there.
#pragma once

#include "backend/cuda/kernels/device.h"
#include "backend/cuda/kernels/job.h"

namespace slip::backend::cuda {

inline constexpr int kBlockThreads = kWarps * 32;
inline constexpr int kTurnCols = 4 * kBlockThreads;  // that all threads take at once

/// Codes enter the tensor cores with this added (see piece.h).
__host__ __device__ constexpr float code_offset(Format format) {
  return format == Format::kAffine4 ? 128.0f : 2176.0f;
}

/// Where the rows of a product lie in shared memory.
struct Stage {
  int rows = 0, starts = 0, biases = 0, end = 0;
};
__host__ __device__ inline Stage stage_at(int work, const PackedMatrix& matrix, int tiles) {
  Stage stage;
  const int cols = matrix.padded_cols();
  stage.rows = work;
  stage.starts = stage.rows + cols * 16 * tiles;
  stage.biases = stage.starts + cols / 64 * matrix.groups * 64 * tiles;
  stage.end = stage.biases + (matrix.groups > 0 ? matrix.pieces * 64 * tiles : 0);
  return stage;
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

/// Columns col .. col + 3 of a row; zero past the end. Rows start on 16 bytes and have room for whole fours.
__device__ __forceinline__ float4 read_four(const float* row, int col, int cols, bool wanted) {
  float4 four = make_float4(0, 0, 0, 0);
  if (wanted && col < cols) four = load_fresh(reinterpret_cast<const float4*>(row + col));
  if (col + 3 >= cols) {
    if (col + 1 >= cols) four.y = 0;
    if (col + 2 >= cols) four.z = 0;
    four.w = 0;
  }
  return four;
}
__device__ __forceinline__ float4 read_weights(const float* weights, int col, int cols) {
  if (weights == nullptr) return make_float4(1, 1, 1, 1);
  if (col + 3 < cols) return __ldg(reinterpret_cast<const float4*>(weights + col));
  return make_float4(col < cols ? __ldg(weights + col) : 0, col + 1 < cols ? __ldg(weights + col + 1) : 0,
                     col + 2 < cols ? __ldg(weights + col + 2) : 0, 0);
}
__device__ __forceinline__ float squares_of(float4 x, float sum) {
  return fmaf(x.x, x.x, fmaf(x.y, x.y, fmaf(x.z, x.z, fmaf(x.w, x.w, sum))));
}
__device__ __forceinline__ void store_four(float* row, int col, int cols, float4 x) {
  if (col + 3 < cols) {
    *reinterpret_cast<float4*>(row + col) = x;
    return;
  }
  if (col < cols) row[col] = x.x;
  if (col + 1 < cols) row[col + 1] = x.y;
  if (col + 2 < cols) row[col + 2] = x.z;
}

/// Lane n of every warp gets 1 / rms of row n, from the sums that all warps left.
__device__ __forceinline__ float row_factor(const float* partial, int cols, float epsilon) {
  const int n = threadIdx.x % kMaxRows;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += partial[w * kMaxRows + n];
  return 1.0f / sqrtf(sum / static_cast<float>(cols) + epsilon);
}
template <int kRows>
__device__ __forceinline__ void leave_squares(const float (&squares)[kRows], int first, int count,
                                              float* partial) {
#pragma unroll
  for (int n = 0; n < kRows; ++n) {
    if (n >= count) continue;
    const float sum = warp_sum(squares[n]);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32 * kMaxRows + first + n] = sum;
  }
}

/// Four columns of row n (of its tile, r) as operands, and what their groups need.
template <int kTiles>
__device__ __forceinline__ void put_four(const Stage& stage, const PackedMatrix& matrix, int col, int n,
                                         float4 x, bool wanted) {
  const int tile = n / 4, r = n % 4;
  const Split one = split_bf16(x.x, x.y), two = split_bf16(x.z, x.w);
  if (wanted) {
    const int t = col % 8 / 2;
    auto* words = shared_at<uint32_t>(stage.rows) + ((col / 32 * kTiles + tile) * 32 + r * 4 + t) * 4 +
                  col / 16 % 2 * 2 + col / 8 % 2;
    words[0] = one.high;
    words[4] = two.high;
    words[64] = one.low;
    words[68] = two.low;
  }
  if (matrix.groups == 0) return;
  float high = bf16_low(one.high) + bf16_high(one.high) + (bf16_low(two.high) + bf16_high(two.high));
  float low = bf16_low(one.low) + bf16_high(one.low) + (bf16_low(two.low) + bf16_high(two.low));
  const int lanes = matrix.groups == 1 ? 16 : 8;  // of a group
#pragma unroll
  for (int mask = 1; mask < 16; mask *= 2) {
    const float more_high = shuffle_xor(high, mask), more_low = shuffle_xor(low, mask);
    if (mask < lanes) {
      high += more_high;
      low += more_low;
    }
  }
  if (!wanted || threadIdx.x % static_cast<unsigned>(lanes) != 0) return;
  const int group = col / 64 * matrix.groups + (matrix.groups == 2 ? col / 32 % 2 : 0);
  const float offset = -code_offset(matrix.format);
  auto* starts = shared_at<float>(stage.starts) + ((group * kTiles + tile) * 4 + r / 2) * 4 + r % 2;
  starts[0] = starts[2] = offset * high;
  starts[8] = starts[10] = offset * low;
  // [piece][tile][column r][t]: pairs of high parts, then of low ones, then nothing. Columns 4 to 7 are not
  // kept.
  const Split total = split_bf16(high + low, 0);
  const int in_piece = matrix.groups * (matrix.format == Format::kAffine4 ? 2 : 1);
  const int at = group % in_piece;
  auto* halves = shared_at<uint16_t>(stage.biases) + ((group / in_piece * kTiles + tile) * 4 + r) * 8;
  halves[at] = static_cast<uint16_t>(total.high);
  halves[in_piece + at] = static_cast<uint16_t>(total.low);
  if (at > 0) return;
  auto* words = reinterpret_cast<uint32_t*>(halves);
#pragma unroll
  for (int t = 1; t < 4; ++t) {
    if (t >= in_piece) words[t] = 0;
  }
}

/// Staging in blocks of kRows rows by kTurns turns, whose loads are under way together.
template <int kTiles, int kRows, int kTurns>
struct Stager {
  const Segment& segment;
  const MatrixList* list;
  const StagedRows rows;
  const Stage stage;
  const bool keeps;
  float* partial;  // [2][kWarps][kMaxRows]
  float4 held[kTurns][kRows];
  float4 weights[kTurns], branch_weights[kTurns];

  __device__ int source_row(int n) const {
    if (segment.in.slots == 0) return rows.first + n;
    const int slot = load_fresh(&list->slot[rows.listed][rows.first + n]);
    return slot < 0 ? -1 : (rows.first + n) * segment.in.slots + slot;
  }
  __device__ static int col_of(int turn) {
    return (turn * kBlockThreads + static_cast<int>(threadIdx.x)) * 4;
  }
  __device__ bool fits(int turns) const { return turns <= kTurns && rows.count <= kRows; }
  /// The thread's own place for a sum of row n until it is split: inside what its half of a warp will write.
  __device__ static float4* stash(const Stage& stage, int col, int n) {
    return shared_at<float4>(stage.rows) + ((col / 64 * 2 + n % 4 / 2) * kTiles + n / 4) * 32 + n % 2 * 16 +
           static_cast<int>(threadIdx.x) % 16;
  }

  __device__ __forceinline__ void load_rows(int turn, int first) {
    const Input& in = segment.in;
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const bool inside = first + n < rows.count && in.rows != nullptr;
      const int row = inside ? source_row(first + n) : -1;
#pragma unroll
      for (int i = 0; i < kTurns; ++i)
        held[i][n] =
            read_four(in.rows + static_cast<int64_t>(row) * in.stride, col_of(turn + i), in.cols, row >= 0);
    }
  }
  __device__ __forceinline__ void load_weights(int turn) {
    const Input& in = segment.in;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      weights[i] = read_weights(segment.normed ? segment.norm : nullptr, col_of(turn + i), in.cols);
      branch_weights[i] = read_weights(in.branch_norm, col_of(turn + i), in.cols);
    }
  }
  __device__ __forceinline__ void load_branch(int turn, int first, float4 (&branch)[kTurns][kRows]) const {
    const Input& in = segment.in;
    for (int part = 0; part < in.branch_parts; ++part) {
      const float* from = in.branch + part * in.part_stride;
      float4 more[kTurns][kRows];
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
#pragma unroll
        for (int i = 0; i < kTurns; ++i)
          more[i][n] = read_four(from + (rows.first + first + n) * in.branch_stride, col_of(turn + i),
                                 in.cols, first + n < rows.count);
      }
#pragma unroll
      for (int n = 0; n < kRows; ++n) {
#pragma unroll
        for (int i = 0; i < kTurns; ++i) {
          float4& sum = branch[i][n];
          const float4& add = more[i][n];
          if (part == 0) {
            sum = add;
          } else {
            sum = make_float4(sum.x + add.x, sum.y + add.y, sum.z + add.z, sum.w + add.w);
          }
        }
      }
    }
  }

  /// Sums the branch, keeps it in shared memory, and returns its factors, row by lane.
  __device__ float branch_factor(int turns) {
    const Input& in = segment.in;
    for (int first = 0; first < rows.count; first += kRows) {
      float squares[kRows] = {};
      for (int turn = 0; turn < turns; turn += kTurns) {
        if (fits(turns)) {
          load_rows(turn, first);
          load_weights(turn);
        }
        float4 branch[kTurns][kRows] = {};
        load_branch(turn, first, branch);
#pragma unroll
        for (int n = 0; n < kRows; ++n) {
#pragma unroll
          for (int i = 0; i < kTurns; ++i) {
            const int col = col_of(turn + i);
            squares[n] = squares_of(branch[i][n], squares[n]);
            if (first + n < rows.count && col < segment.matrix.padded_cols())
              *stash(stage, col, first + n) = branch[i][n];
          }
        }
      }
      leave_squares(squares, first, rows.count - first, partial);
    }
    __syncthreads();
    return row_factor(partial, in.cols, in.epsilon);
  }

  __device__ __forceinline__ void finish(int col, int n, float4 x, float4 weight, float& squares) {
    const Input& in = segment.in;
    const int row = rows.first + n;
    if (keeps && n < rows.count) {
      if (in.keep != nullptr) store_four(in.keep + row * in.keep_stride, col, in.cols, x);
      if (in.tap != nullptr) store_four(in.tap + row * in.tap_stride, col, in.cols, x);
    }
    if (segment.normed) {
      squares = squares_of(x, squares);
      const float scale = segment.norm_scale;
      x = make_float4(x.x * weight.x * scale, x.y * weight.y * scale, x.z * weight.z * scale,
                      x.w * weight.w * scale);
      if (keeps && n < rows.count && segment.keep_normed != nullptr)
        store_four(segment.keep_normed + row * segment.keep_normed_stride, col, in.cols, x);
    }
    if (n < rows.count)
      put_four<kTiles>(stage, segment.matrix, col, n, x, col < segment.matrix.padded_cols());
  }

  __device__ void run() {
    const Input& in = segment.in;
    const int padded = segment.matrix.padded_cols(), turns = (padded + kTurnCols - 1) / kTurnCols;
    const bool norms_branch = in.branch != nullptr && in.branch_norm != nullptr;
    float factor = 1;
    if (norms_branch) factor = branch_factor(turns);
    for (int first = 0; first < rows.count; first += kRows) {
      float squares[kRows] = {};
      for (int turn = 0; turn < turns; turn += kTurns) {
        if (!norms_branch || !fits(turns)) {
          load_rows(turn, first);
          load_weights(turn);
        }
        if (in.branch != nullptr) add_branch(turn, first, norms_branch, factor);
        __syncwarp();  // stashes have been read before operands take their place
#pragma unroll
        for (int i = 0; i < kTurns; ++i) {
          const int col = col_of(turn + i);
          if (col - static_cast<int>(threadIdx.x % 32) * 4 >= padded) continue;  // the same for a whole warp
#pragma unroll
          for (int n = 0; n < kRows; ++n) finish(col, first + n, held[i][n], weights[i], squares[n]);
        }
      }
      if (segment.normed) leave_squares(squares, first, rows.count - first, partial + kWarps * kMaxRows);
    }
  }

  __device__ __forceinline__ void add_branch(int turn, int first, bool normed, float factor) {
    const Input& in = segment.in;
    float4 branch[kTurns][kRows] = {};
    if (!normed) load_branch(turn, first, branch);
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      const float scale = normed ? shuffle(factor, (first + n) % kMaxRows) : 1.0f;
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const int col = col_of(turn + i);
        const float4& weight = branch_weights[i];  // 1 without a norm
        float4 b = make_float4(0, 0, 0, 0);
        if (!normed) {
          b = branch[i][n];
        } else if (first + n < rows.count && col < segment.matrix.padded_cols()) {
          b = *stash(stage, col, first + n);
        }
        float4& x = held[i][n];
        x = make_float4(
            (x.x + b.x * scale * weight.x) * in.scalar, (x.y + b.y * scale * weight.y) * in.scalar,
            (x.z + b.z * scale * weight.z) * in.scalar, (x.w + b.w * scale * weight.w) * in.scalar);
      }
    }
  }
};

/// All threads of the block; the rows are there after the next barrier of the block.
template <int kTiles>
__device__ __noinline__ void stage_rows(const Segment& segment, const MatrixList* list, StagedRows rows,
                                        bool keeps, Stage stage, float* partial) {
  if (rows.count == 1) {
    Stager<kTiles, 1, 3> stager{segment, list, rows, stage, keeps, partial, {}, {}, {}};
    stager.run();
  } else {
    Stager<kTiles, 4, 1> stager{segment, list, rows, stage, keeps, partial, {}, {}, {}};
    stager.run();
  }
}

}  // namespace slip::backend::cuda
