// Rows: a matrix of activations, one row per batch row, in the forms the matmul kernels read. Rows are padded
// with zeros to the widest block a packed matrix may have, so kernels never look at a tail. finish() must
// follow every write of a row that an affine matrix will read.
#pragma once

#include <cstdint>

#include "backend/cpu/matmul.h"
#include "base/buffer.h"

namespace slip::backend::cpu {

/// How affine matrices see activations: rounded to 8 or 16 bits with a scale per 64 columns, or as they are.
/// The value is the number of 8-bit planes.
enum class ActivationMode { kFloat = 0, kInt8 = 1, kInt16 = 2 };

class Rows {
 public:
  Rows() = default;
  Rows(Carver& carver, int64_t rows, int64_t cols, ActivationMode mode);

  float* row(int64_t index) const { return values_ + index * stride_; }
  int64_t cols() const { return cols_; }
  int64_t stride() const { return stride_; }

  /// Makes codes, scales and sums of a row from its values.
  void finish(int64_t index) const { finish(index, 0, stride_); }
  /// Of the columns [first, end) alone; `first` is a multiple of kQuantBlock, and nothing is after `end` in
  /// its block.
  void finish(int64_t index, int64_t first, int64_t end) const;
  /// What a kernel needs to read the row.
  Column column(int64_t index, float* out) const;

 private:
  int planes_ = 0;
  float* values_ = nullptr;
  int8_t* codes_ = nullptr;
  float* scales_ = nullptr;
  float* sums_ = nullptr;  // of the rounded form if there is one, else of the values
  int64_t cols_ = 0;
  int64_t stride_ = 0;
};

}  // namespace slip::backend::cpu
