// SyntheticTensor: a stored tensor whose bytes are made up when they are read. The 64-bit word at byte 8 i is
// a pure function of (seed, stream name, i), so any range gives the bytes a whole read gives, on any thread,
// at any time.
//
// Three fillings, all one hash and a few integer operations per 8 bytes (several GB/s on one thread):
//   codes    the hash itself: packed affine codes of any width, each code uniform
//   weights  bf16 with random sign and mantissa and one of four exponents, for a standard deviation within a
//   factor
//            of sqrt(2) of the one asked for
//   near     bf16 drawn from 64 values spread evenly around a centre: norm weights, scales and biases
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "synth/synthetic_pattern.h"
#include "tensor/stored_tensor.h"

namespace slip::synth {

/// How the bytes are made from the hash.
struct Filling {
  enum class Kind { kCodes, kWeights, kNear } kind = Kind::kCodes;
  uint64_t exponents = 0;             // kWeights: the largest exponent, in its place in each of four lanes
  std::array<uint16_t, 64> values{};  // kNear: bf16 bits
};

Filling random_codes();
Filling random_weights(double deviation);
/// centre * (1 - spread) .. centre * (1 + spread).
Filling values_near(double centre, double spread);
/// As values_near, each value then multiplied by `factor`: with the same stream name, draws stay in step.
Filling values_near(double centre, double spread, double factor);

class SyntheticTensor final : public tensor::StoredTensor {
 public:
  struct Spec {
    std::string name;
    tensor::DType dtype = tensor::DType::kBf16;
    std::vector<int64_t> shape;
    Filling filling{};
    std::string stream{};                               // the tensor's own name when empty
    PatternFormat pattern{};                            // instead of a filling
    std::shared_ptr<const std::vector<int32_t>> ids{};  // instead of a filling
  };

  SyntheticTensor(const Spec& spec, uint64_t seed);
  const std::byte* read(size_t offset, size_t count, std::vector<std::byte>& scratch) const override;

 private:
  uint64_t key_;
  Filling filling_;
};

/// The tensor of a Spec: random, patterned or a table of ids.
std::unique_ptr<tensor::StoredTensor> make_tensor(const SyntheticTensor::Spec& spec, uint64_t seed);

}  // namespace slip::synth
