// The work of wide passes: more rows than a step of 16 takes, a prompt's. Every phase is a kernel of its own.
// Rows are prepared once per phase (WideStage), in the form the tensor cores take, and then every matrix tile
// is brought to shared memory and unpacked once for 64 rows (WideProduct). A row's bits are those of the
// narrow kernels (stage.h, piece.h, product.h): the same products in the same order, the same cuts of the
// columns.
#pragma once

#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {

class Gpu;

inline constexpr int kWideTokens = 64;    // rows of a pass that a block of a product takes
inline constexpr int kWideOutputs = 128;  // rows of the matrix that it takes
inline constexpr int kWideThreads = 256;
inline constexpr int kWideCols = 128;  // that are in shared memory together
inline constexpr int kWideTargets = 3;

/// A staged row: its pieces (packed_matrix.h) one after another. Of a piece, first the pairs of bf16 or the
/// halves, [32 columns][high, low][t][two steps of 16 columns][b0, b1], the column operand of one row; then,
/// as a tail, the sums of its groups of columns with a scale as a column operand for the biases, and of
/// halves what makes up for their power of two. See stage.h, which has the same for up to 16 rows side by
/// side.
struct StagedLayout {
  Format format = Format::kBf16;
  int groups = 0;

  constexpr int in_piece() const { return groups_of_piece(format, groups); }
  /// High and low, or one.
  constexpr int parts() const { return in_halves(format) ? 1 : 2; }
  constexpr int value_bytes() const { return piece_cols(format) * 2 * parts(); }
  static constexpr int kSumBytes = 16;
  constexpr int tail_bytes() const { return groups == 0 ? 0 : in_halves(format) ? 2 * kSumBytes : kSumBytes; }
  constexpr int piece_bytes() const { return value_bytes() + tail_bytes(); }
};

constexpr int64_t staged_bytes(const PackedMatrix& matrix) {
  return static_cast<int64_t>(StagedLayout{matrix.format, matrix.groups}.piece_bytes()) * matrix.pieces *
         matrix.slices;
}

/// Who multiplies: warps alone, or warpgroups (wide_group.h), which take the pairs of a row's 64 columns as
/// they are: [64 columns][high, low][column], of halves without the second.
enum class WideWorkers : int { kSingle, kGroups };
inline constexpr WideWorkers kWideWorkers = WideWorkers::kGroups;  // of all passes

/// Rows weighted and split for one kind of matrix.
struct WideTarget {
  StagedLayout layout;
  WideWorkers workers = kWideWorkers;
  int pieces = 0, slices = 1;
  const float* norm = nullptr;  // [cols] weight; null = 1
  float norm_scale = 1;
  std::byte* staged = nullptr;  // [row][slice][piece]
  int64_t row_bytes = 0;
};

/// Rows as products take them, from the same input for up to three kinds of matrices. With slices, `in.cols`
/// are those of a slice and there is no norm.
struct WideStage {
  int rows = 0;
  Input in;
  bool normed = false;
  int targets = 0;
  WideTarget target[kWideTargets];
  float* factors = nullptr;  // [row] 1 / rms, which the product's results are multiplied with
  float* normed_rows =
      nullptr;  // where not null, the rows weighted by the first target's norm, and the factor
  int64_t normed_stride = 0;
};

/// Rows that one matrix of a stack multiplies with: places in the list of pairs.
struct WideTile {
  int matrix, first, count;
};

/// Who chose which matrix of a stack: pair p is row p / chosen and its choice p % chosen.
struct WideChoices {
  int* pairs = nullptr;       // by matrix
  WideTile* tiles = nullptr;  // of at most kWideTokens pairs each
  int* tile_count = nullptr;  // how many there are
  float* shares = nullptr;    // [row][chosen]
  int* experts = nullptr;     // [row][chosen]
  int* counts = nullptr;      // [expert]: pairs
  int most_tiles = 0;
};

struct WideProduct {
  PackedMatrix matrix;
  WideWorkers workers = kWideWorkers;  // as the rows were staged
  int rows = 0;
  const std::byte* staged = nullptr;
  int64_t row_bytes = 0;
  const float* factors = nullptr;  // null = 1
  Epilogue epilogue = Epilogue::kStore;
  model::Activation activation = model::Activation::kGeluTanh;
  float* out = nullptr;  // [slice][row][out_stride]; of a stack, row = pair
  int64_t out_stride = 0;
  int64_t slice_stride = 0;
  const float* other = nullptr;
  int64_t other_stride = 0;
  float softcap = 0;
  // Of a stack.
  WideChoices choices;
  int pairs_per_row = 1;  // staged row = pair / pairs_per_row
  int skipped = 0;        // a benchmark's: kSkipStream, kSkipMultiply
};

/// Choices of all rows from the router's scores.
struct WideRoute {
  int rows = 0, experts = 0, chosen = 0;
  const float* scores = nullptr;
  int64_t stride = 0;
  const float* expert_scale = nullptr;
  WideChoices choices;
};

/// The rows of a pass, as Step has them of up to 16.
struct WideRows {
  int rows = 0, groups = 0;
  const StepRow* row = nullptr;
  const RowGroup* group = nullptr;
};

/// Head norms, rotation and the cache, for all rows: see HeadsJob.
struct WideHeads {
  HeadsJob job;
  WideRows rows;
};

/// Attention of one layer, whose queries, keys and values are ready (WideHeads). `job.own.query` is only
/// read; there are no partial results.
struct WideAttend {
  AttendJob job;
  WideRows rows;
  int units = 0;  // blocks of threads
};

/// Rows of a field that stay, moved to the front: row i becomes row from[i] >= i.
struct WideKeep {
  float* data = nullptr;
  int64_t stride = 0;
  int cols = 0;
  const int* from = nullptr;
  int rows = 0;
};

/// Once per process and device, before the first of these.
void prepare_wide(Gpu& gpu);
void start(Gpu& gpu, const WideStage& job);
void start(Gpu& gpu, const WideProduct& job);
void prepare_wide_groups(Gpu& gpu);                        // by prepare_wide()
void start_wide_groups(Gpu& gpu, const WideProduct& job);  // by start()
void start(Gpu& gpu, const WideRoute& job);
void start(Gpu& gpu, const WideKeep& job);
void start(Gpu& gpu, const CombineJob& job);
void start(Gpu& gpu, const PerLayerJob& job);
void start(Gpu& gpu, const WideHeads& job);
void start(Gpu& gpu, const WideAttend& job);

/// Queries (rows times heads of a kv head) that a block of threads takes in attention.
int wide_attend_queries(int head_dim);

}  // namespace slip::backend::cuda
