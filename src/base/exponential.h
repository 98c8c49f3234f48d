// e^x for x <= 0 in plain arithmetic, so that it is the same on every machine, in vectors and on a GPU.
#pragma once

#include <bit>

namespace slip {

/// e^x of a float, or of each of a vector of them, for -87 <= x <= 0. e^0 is exactly 1 and no result exceeds
/// 1; the relative error is 3e-7. `Ints`: as wide as Floats.
template <typename Ints, typename Floats>
constexpr Floats exp_nonpositive(Floats x) {
  constexpr float kShift = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  constexpr float kLog2E = 0x1.715476p0f, kLn2High = 0x1.62e400p-1f, kLn2Low = 0x1.7f7d1cp-20f;
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
  return __builtin_bit_cast(
      Floats, __builtin_bit_cast(Ints, p) + (__builtin_bit_cast(Ints, shifted) << 23));  // p * 2^n
}

}  // namespace slip
