// PatternTensor: a stored matrix whose rows are computed when they are read, by a RowPattern. The pattern
// gives values in [-1, 1]; the tensor stores them times `unit` as bf16, or as affine codes that share one
// scale and one bias in the whole matrix, with 0 exactly a code: sparse rows stay sparse at any width.
//
// Patterns hold cosines, whose last bit as a double may differ between C libraries. Bytes do not: none of the
// angles used has a cosine so close to the middle between two floats that this bit decides (a test looks at
// all of them), and everything after that is arithmetic on floats.
//
// Cost: a few nanoseconds per value; a row is the smallest piece made.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/stored_tensor.h"

namespace slip::synth {

class RowPattern {
 public:
  virtual ~RowPattern() = default;
  /// Fills all of `out`, each value in [-1, 1]. Safe from several threads.
  virtual void row(int64_t row, std::span<float> out) const = 0;
};

/// How a pattern becomes a stored matrix.
struct PatternFormat {
  std::shared_ptr<const RowPattern> pattern;
  int bits = 16;  // 16: bf16 [rows, cols]; 3 to 8: codes, u32 [rows, cols * bits / 32]
  int64_t cols = 0;
  double unit = 1;  // bf16 only: what 1 stands for; codes leave that to scale and bias
};

/// What one step of a code of this width is worth when the largest value is `unit`; the bias that goes with
/// it is code_bias(). Both are bf16 values.
float code_scale(int bits, double unit);
float code_bias(int bits, double unit);

class PatternTensor final : public tensor::StoredTensor {
 public:
  PatternTensor(const std::string& name, std::vector<int64_t> shape, PatternFormat format);
  const std::byte* read(size_t offset, size_t count, std::vector<std::byte>& scratch) const override;

 private:
  void encode(std::span<const float> values, std::byte* out) const;

  PatternFormat format_;
  size_t row_bytes_;
};

/// A permutation or other table of ids, stored as i64 (Hugging Face) or i32 (MLX).
class IdTensor final : public tensor::StoredTensor {
 public:
  IdTensor(const std::string& name, tensor::DType dtype, std::shared_ptr<const std::vector<int32_t>> ids);
  const std::byte* read(size_t offset, size_t count, std::vector<std::byte>& scratch) const override;

 private:
  std::shared_ptr<const std::vector<int32_t>> ids_;
};

}  // namespace slip::synth
