#include "synth/synthetic_specs.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace slip::synth {

namespace {
constexpr double kNormSpread = 0.2;
}

void SpecBuilder::norm(const std::string& module, int64_t size) {
  vector(module + ".weight", size, 1.0, kNormSpread);
}

void SpecBuilder::vector(const std::string& name, int64_t size, double centre, double spread) {
  specs_.push_back({.name = prefix_ + name, .shape = {size}, .filling = values_near(centre, spread)});
}

void SpecBuilder::linear(const std::string& module, int64_t rows, int64_t cols) {
  matrix(module, {rows, cols}, 1.0 / std::sqrt(cols));
}

void SpecBuilder::matrix(const std::string& module, const Extents& shape, double deviation, int least_bits) {
  if (format_.bits == 16) return weights(module + ".weight", shape, deviation);
  affine(module, shape, deviation, std::max(format_.bits, least_bits));
}

void SpecBuilder::weights(const std::string& name, const Extents& shape, double deviation) {
  specs_.push_back({.name = prefix_ + name, .shape = shape, .filling = random_weights(deviation)});
}

SpecBuilder::AffineShapes SpecBuilder::affine_shapes(const std::string& module, const Extents& shape,
                                                     int bits) const {
  const int64_t cols = shape.back();
  if (cols % format_.group != 0) {
    fail_usage("groups of {} do not divide the {} columns of {} in this shape; choose groups of 64 or 32",
               format_.group, cols, module);
  }
  AffineShapes shapes{.packed = shape, .groups = shape};
  shapes.packed.back() = cols * bits / 32;
  shapes.groups.back() = cols / format_.group;
  return shapes;
}

void SpecBuilder::affine(const std::string& module, const Extents& shape, double deviation, int bits) {
  const AffineShapes shapes = affine_shapes(module, shape, bits);
  // Uniform codes 0 .. levels have this deviation; the bias puts their middle at 0.
  const double levels = (1 << bits) - 1;
  const double scale = deviation / std::sqrt(levels * (levels + 2) / 12);
  const std::string name = prefix_ + module;
  specs_.push_back({.name = name + ".weight",
                    .dtype = tensor::DType::kU32,
                    .shape = shapes.packed,
                    .filling = random_codes()});
  specs_.push_back({.name = name + ".scales", .shape = shapes.groups, .filling = values_near(scale, 0.05)});
  specs_.push_back({.name = name + ".biases",
                    .shape = shapes.groups,
                    .filling = values_near(scale, 0.05, -levels / 2),
                    .stream = name + ".scales"});
}

void SpecBuilder::patterned(const std::string& module, int64_t rows, int64_t cols, double unit,
                            std::shared_ptr<const RowPattern> pattern) {
  const std::string name = prefix_ + module;
  const int bits = format_.bits;
  PatternFormat made{.pattern = std::move(pattern), .bits = bits, .cols = cols, .unit = unit};
  if (bits == 16) {
    specs_.push_back({.name = name + ".weight", .shape = {rows, cols}, .pattern = std::move(made)});
    return;
  }
  const AffineShapes shapes = affine_shapes(module, {rows, cols}, bits);
  specs_.push_back({.name = name + ".weight",
                    .dtype = tensor::DType::kU32,
                    .shape = shapes.packed,
                    .pattern = std::move(made)});
  specs_.push_back({.name = name + ".scales",
                    .shape = shapes.groups,
                    .filling = values_near(double{code_scale(bits, unit)}, 0)});
  specs_.push_back({.name = name + ".biases",
                    .shape = shapes.groups,
                    .filling = values_near(double{code_bias(bits, unit)}, 0)});
}

void SpecBuilder::ids(const std::string& name, std::shared_ptr<const std::vector<int32_t>> ids) {
  specs_.push_back({.name = prefix_ + name,
                    .dtype = format_.mlx ? tensor::DType::kI32 : tensor::DType::kI64,
                    .shape = {static_cast<int64_t>(ids->size())},
                    .ids = std::move(ids)});
}

}  // namespace slip::synth
