// Matrix times rows: y[row][out] = sum over columns of w[out][col] * x[row][col], for 1 to thousands of rows.
//
// One kernel per weight format serves every width. It walks a panel of 32 outputs once for up to kMaxColumns
// rows, each row with accumulators of its own and the same order of operations however many rows go along, so
// a row's bits never depend on its company. Narrow steps read every weight byte from memory once; wide ones
// keep a tile of panels in the second-level cache while all rows pass over it.
//
// Order of the sum for one output: floats: even columns into one accumulator, odd columns into a second,
// ascending, added at the end. Affine: per block of 64 columns (32 where the group is 32) an exact integer
// dot product with the rounded activations (or, with float activations, even/odd sums of code * x), scaled
// and added in column order.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/packed_matrix.h"
#include "model/config.h"

namespace slip::backend::cpu {

inline constexpr int kQuantBlock = 64;  // columns that share an activation scale
inline constexpr int kSumBlock = 32;    // columns summed for a bias: the smallest group

/// One row of activations in the forms the kernels read, and where its results go.
struct Column {
  const float* values = nullptr;  // [padded cols], zero past cols
  int planes = 0;                 // of codes; 0: affine matrices are multiplied with `values`
  const int8_t* codes = nullptr;  // [padded cols / 64][planes][64]; two planes mean 256 * first + second
  const float* scales = nullptr;  // [padded cols / 64]
  const float* sums =
      nullptr;           // [padded cols / 32]: scale * sum of codes, or the sum of values without planes
  float* out = nullptr;  // [panels * 32]
};

enum class Epilogue { kStore, kSoftcap };

struct MatmulOptions {
  Epilogue epilogue = Epilogue::kStore;
  float softcap = 0;
};

/// Panels [begin, end) of `matrix` for every column.
void matmul(const PackedMatrix& matrix, std::span<const Column> columns, int64_t begin, int64_t end,
            const MatmulOptions& options = {});

/// out = activation(gate x) * (up x), panels [begin, end) of both.
void matmul_gated(const PackedMatrix& gate, const PackedMatrix& up, model::Activation activation,
                  std::span<const Column> columns, int64_t begin, int64_t end);

/// The instruction set the kernels run with on this machine: "AVX3_DL".
const char* kernel_target();

}  // namespace slip::backend::cpu
