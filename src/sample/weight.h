// weight(x): e^x for x <= 0, rounded to a multiple of a fixed quantum, so that a sum of weights is exact and
// therefore the same in whatever order it is taken: a partial selection finds the same cut as a full sort. It
// is plain arithmetic rather than the C library's, so it also is the same on every machine.
//
// Relative error of the exponential 3e-7; the quantum (2^-35 for 262,144 tokens) hides at most 4e-6 of the
// total.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "sample/lanes.h"

namespace slip::sample {

/// e^x for x <= 0; anything below -87 counts as -87. e^0 is exactly 1 and no result exceeds 1.
inline Floats exp_nonpositive(Floats x) {
  constexpr float kShift = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  constexpr float kLog2E = 0x1.715476p0f, kLn2High = 0x1.62e400p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  x = larger(broadcast(-87.0f), x);
  const Floats shifted = x * kLog2E + kShift;
  const Floats n = shifted - kShift;
  const Floats r = (x - n * kLn2High) - n * kLn2Low;
  // |r| <= ln 2 / 2, so seven terms of the series reach float's precision.
  Floats p = r * (1.0f / 720) + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return std::bit_cast<Floats>(std::bit_cast<Ints>(p) + (std::bit_cast<Ints>(shifted) << 23));  // p * 2^n
}

/// Rounds to multiples of a quantum so small that double holds the sum of `terms` weights exactly.
class Quantum {
 public:
  explicit Quantum(int terms)
      : shift_(static_cast<double>(std::bit_ceil(static_cast<uint32_t>(std::max(terms, 2)))) * 0.75),
        negligible_(static_cast<float>(std::log(shift_ / 0.75) - 54 * std::numbers::ln2 - 0.01)) {}

  /// A double or a vector of them. shift_ + weight has the quantum as its last bit.
  template <typename T>
  T round(T weight) const {
    return (weight + shift_) - shift_;
  }
  /// e^x is below half the quantum, and so rounds to zero, for every x below this.
  float negligible() const { return negligible_; }

 private:
  double shift_;
  float negligible_;
};

}  // namespace slip::sample
