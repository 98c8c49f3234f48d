// SpecBuilder: the list of a synthetic checkpoint's tensors while it is being written down, one call per
// module. synthetic_layout.cpp (targets) and synthetic_assistant.cpp say which modules there are.
#pragma once

#include <string>
#include <vector>

#include "synth/synthetic_tensor.h"

namespace slip::synth {

struct SyntheticFormat {
  bool mlx = false;  // names and expert split of MLX; Hugging Face otherwise
  int bits = 16;     // of matrices; below 16 affine codes with scales and biases, MLX only
  int group = 64;
};

class SpecBuilder {
 public:
  using Extents = std::vector<int64_t>;

  SpecBuilder(const SyntheticFormat& format, std::string prefix)
      : format_(format), prefix_(std::move(prefix)) {}

  /// Values around 1, as trained norms have.
  void norm(const std::string& module, int64_t size);
  void vector(const std::string& name, int64_t size, double centre, double spread);
  /// A matrix with a deviation of 1 / sqrt(cols).
  void linear(const std::string& module, int64_t rows, int64_t cols);
  /// Never fewer than `least_bits`. Throws Error(kUsage) when the group does not divide the columns.
  void matrix(const std::string& module, const Extents& shape, double deviation, int least_bits = 0);
  /// bf16 whatever the format.
  void weights(const std::string& name, const Extents& shape, double deviation);
  /// A matrix of computed rows; the pattern's 1 stands for `unit`.
  void patterned(const std::string& module, int64_t rows, int64_t cols, double unit,
                 std::shared_ptr<const RowPattern> pattern);
  void ids(const std::string& name, std::shared_ptr<const std::vector<int32_t>> ids);

  /// What names begin with from here on.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  std::vector<SyntheticTensor::Spec> take() { return std::move(specs_); }
  const SyntheticFormat& format() const { return format_; }

 private:
  struct AffineShapes {
    Extents packed, groups;
  };
  AffineShapes affine_shapes(const std::string& module, const Extents& shape, int bits) const;
  void affine(const std::string& module, const Extents& shape, double deviation, int bits);

  SyntheticFormat format_;
  std::string prefix_;
  std::vector<SyntheticTensor::Spec> specs_;
};

}  // namespace slip::synth
