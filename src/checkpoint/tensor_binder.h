// TensorBinder: takes single tensors out of a TensorSet, by name and expected shape, and remembers which were
// taken. bind.cpp says which tensors a model has; this says what a matrix or a vector looks like in a file.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/quantization.h"
#include "checkpoint/tensor_set.h"
#include "tensor/matrix.h"

namespace slip::checkpoint {

/// A matrix, or with stack > 0 that many of them in one 3-D tensor [stack, rows, cols], read as [stack *
/// rows, cols].
struct MatrixShape {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stack = 0;
};

/// What a tensor that is there and not needed is, for people.
struct Leftover {
  std::string_view group;
  std::string_view reason;
};

class TensorBinder {
 public:
  /// `where` names the checkpoint in messages about tensors that are in no file.
  TensorBinder(const TensorSet& tensors, const Quantization& quantization, std::string where)
      : tensors_(tensors), quantization_(quantization), where_(std::move(where)) {}

  bool has(const std::string& name) const { return tensors_.find(name) != nullptr; }
  bool used(const std::string& name) const { return used_.contains(name); }

  /// The file a tensor is in, or `where`.
  std::string origin(const tensor::StoredTensor& tensor) const;

  /// Module `name`: <name>.weight, or plain <name> as Hugging Face stores experts; with <name>.scales and
  /// <name>.biases when it is quantised.
  tensor::Matrix matrix(const std::string& name, const MatrixShape& shape);
  /// A float vector of exactly this shape, read now.
  std::vector<float> vector(const std::string& name, int64_t count);
  /// A single value, of shape [1] or [].
  float scalar(const std::string& name);
  /// `count` token ids of type I64 or I32, each of 0 .. count - 1 once, read now.
  std::vector<int32_t> permutation(const std::string& name, int64_t count);

  /// The tensors that were not taken, grouped by what `explain` says of their names. One it cannot explain
  /// means that config.json describes another model: an error.
  std::vector<NotLoaded> leftovers(
      const std::function<std::optional<Leftover>(std::string_view)>& explain) const;

  /// "bf16", "affine 4-bit and 8-bit, group 64": the matrices bound so far, the largest part first.
  std::string encoding_text() const;
  bool any_affine() const { return !affine_values_.empty(); }

 private:
  const tensor::StoredTensor& claim(const std::string& name);
  void check_shape(const tensor::StoredTensor& tensor, const std::vector<int64_t>& expected) const;
  void check_float(const tensor::StoredTensor& tensor) const;
  void bind_affine(const std::string& name, const MatrixShape& shape, tensor::Matrix& matrix);

  const TensorSet& tensors_;
  const Quantization& quantization_;
  const std::string where_;
  std::set<std::string, std::less<>> used_;
  std::map<std::pair<int, int>, int64_t> affine_values_;  // (bits, group) -> values bound
  std::map<tensor::DType, int64_t> float_values_;         // of matrices only
};

}  // namespace slip::checkpoint
