// Between two steps of a chain: a token of each row's best is drawn, and its embedding read from the packed
// head (packed_matrix.h), with the same bits as from the checkpoint, because packing moves codes and
// multiplies scales with a power of two.
//
// Several blocks share a row; each of them draws for itself, which is quicker than to tell one another. Then
// a warp takes 64 columns, a lane two of them. Bytes: of 4-bit codes one run of 64 per 64 columns, half of it
// other rows', and a word of scales and one of biases per group; a row of 3840 columns is 4 KB.
#pragma once

#include "backend/cuda/kernels/draw.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

/// Where a row and a pair of columns, `col` and the one after it, are in a packed matrix.
class PackedPlace {
 public:
  __device__ PackedPlace(const PackedMatrix& table, int row, int col)
      : table_(table), high_(row / 8 % 2), group_row_(row % 8) {
    const int in_piece = piece_cols(table.format);
    subtile_ = row / 16 % table.subtiles;
    in_piece_ = col % in_piece;
    piece_ = table.data + table.offset(row / (16 * table.subtiles), col / in_piece);
  }

  __device__ float2 values() const {
    if (table_.format == Format::kBf16) {
      const uint32_t pair = word(subtile_ * 1024, (step(2) * 32 + lane()) * 4 + of_register());
      return {bf16_low(pair), bf16_high(pair)};
    }
    const int groups = table_.groups * piece_cols(table_.format) / kPaddedCols;
    const int scale = (group_row_ * groups + in_piece_ / (kPaddedCols / table_.groups)) * 2;
    const uint32_t scales = word(subtile_ * groups * 64, scale);
    const uint32_t biases = word(subtile_ * groups * 64, scale + 1);
    const float by =
        (high_ != 0 ? bf16_high(scales) : bf16_low(scales)) / kept_scale(table_.format, 8 * high_);
    const float plus = high_ != 0 ? bf16_high(biases) : bf16_low(biases);
    const int codes = table_.subtiles * groups * 64;
    uint32_t low, high;
    if (is_fours(table_.format)) {
      const int half = in_piece_ / kPaddedCols;
      const uint32_t nibbles =
          word(codes + (half * table_.subtiles + subtile_) * 512, lane() * 4 + step(4)) >> 4 * of_register();
      low = nibbles & 15;
      high = nibbles >> 16 & 15;
    } else {
      const int at = (step(4) / 2 * 32 + lane()) * 4 + step(2) * 2 + of_register() / 2;
      const uint32_t bytes = word(codes + subtile_ * 1024, at) >> 8 * (of_register() % 2);
      low = bytes & 255;
      high = bytes >> 16 & 255;
    }
    return {static_cast<float>(low) * by + plus, static_cast<float>(high) * by + plus};
  }

 private:
  __device__ uint32_t word(int offset, int index) const {
    return __ldg(reinterpret_cast<const uint32_t*>(piece_ + offset) + index);
  }
  /// Of 16 columns, among as many as lie together.
  __device__ int step(int count) const { return in_piece_ / 16 % count; }
  /// That holds the pair as an operand, and in which register of a step.
  __device__ int lane() const { return group_row_ * 4 + in_piece_ % 8 / 2; }
  __device__ int of_register() const { return high_ + 2 * (in_piece_ / 8 % 2); }

  const PackedMatrix& table_;
  const std::byte* piece_;
  int high_, group_row_;  // row 8 * high + group_row of its 16
  int subtile_, in_piece_;
};

/// 64 columns, from the warp's `part` on, in steps of `parts`.
__device__ inline void embed_token(const NextDraftJob& job, int token, float* out, int part, int parts) {
  for (int i = 0; i < job.placeholder_count; ++i) {
    if (job.placeholders[i] == token) token = job.pad;
  }
  for (int first = part * kPaddedCols; first < job.table.cols; first += parts * kPaddedCols) {
    const int col = first + 2 * (thread_here() % 32);
    if (col >= job.table.cols) continue;
    const float2 values = PackedPlace(job.table, token, col).values();
    *reinterpret_cast<float2*>(out + col) = {values.x * job.scale, values.y * job.scale};
  }
}

__device__ __noinline__ inline void next_draft(const NextDraftJob& job, int work) {
  DrawSpace& space = *shared_at<DrawSpace>(work);
  const int grid = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  const int sharers = max(1, grid / job.rows), share = block % sharers;
  for (int row = block / sharers; row < job.rows; row += grid / sharers) {
    BestTokens& best = job.best[row];
    draw_token(best, job.drawings[row], job.turn, space);
    const int token = space.drawn;
    if (share == 0 && threadIdx.x == 0) best.next = token;
    embed_token(job, token, job.out + row * job.stride, share * kWarps + thread_here() / 32,
                sharers * kWarps);
    __syncthreads();  // before the space is used again
  }
}

}  // namespace slip::backend::cuda
