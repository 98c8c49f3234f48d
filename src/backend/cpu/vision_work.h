// VisionWork: what one thread needs to take a block of rows through the phases of a tower, and the product of
// such a block with a matrix. Rows are floats here; a product clamps and rounds what it reads.
#pragma once

#include <span>

#include "backend/cpu/image_attention.h"
#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/rows.h"
#include "model/vision.h"

namespace slip::backend::cpu {

/// Rows of floats with a fixed distance, which may lie in anybody's memory.
struct FloatRows {
  float* data = nullptr;
  int64_t stride = 0;
  float* row(int64_t index) const { return data + index * stride; }
};

class VisionWork {
 public:
  /// Rows a block has at most.
  static constexpr int kMostRows = 64;

  VisionWork() = default;
  VisionWork(Carver& carver, const model::VisionConfig& config, bool narrow);

  /// out = clamp(matrix * clamp(rows)) for `count` rows; `bounds` null = none. `out` may not be `rows`.
  void multiply(const PackedMatrix& matrix, const model::ClippedMatrix* bounds, const FloatRows& rows,
                int count, const FloatRows& out);

  FloatRows normed, first, second, third;  // [kMostRows][the widest row]
  AttendScratch attend;

 private:
  void multiply_narrow(const PackedMatrix& matrix, const model::ClippedMatrix* bounds, const FloatRows& rows,
                       int count, const FloatRows& out);
  void multiply_floats(const PackedMatrix& matrix, const model::ClippedMatrix* bounds, const FloatRows& rows,
                       int count, const FloatRows& out);

  bool narrow_ = false;
  Rows inputs_;                        // what matmul() reads
  uint16_t* narrow_inputs_ = nullptr;  // what dot_rows() reads, [kMostRows][narrow_stride_]
  int64_t narrow_stride_ = 0;
  Column* columns_ = nullptr;
};

}  // namespace slip::backend::cpu
