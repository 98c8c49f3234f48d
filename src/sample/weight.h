// weight(x): e^x for x <= 0, rounded to a multiple of a fixed quantum, so that a sum of weights is exact and
// therefore the same in whatever order it is taken: a partial selection finds the same cut as a full sort. It
// is plain arithmetic rather than the C library's, so it also is the same on every machine.
//
// The quantum (2^-35 for 262,144 tokens) hides at most 4e-6 of the
// total.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/exponential.h"
#include "sample/lanes.h"

namespace slip::sample {

/// e^x for x <= 0; anything below -87 counts as -87.
inline Floats exp_nonpositive(Floats x) {
  return slip::exp_nonpositive<Ints>(larger(broadcast(-87.0f), x));
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
