// Four floats at a time, by the vector types GCC and Clang share: one 16-byte register on every x86-64 and
// ARM64, the same IEEE operations per lane as scalar code, so results do not depend on the machine. Wider
// registers would gain little: a scan of 1 MB of logits runs at the speed of the cache it lies in.
#pragma once

#include <cstdint>
#include <cstring>

namespace slip::sample {

inline constexpr int kLanes = 4;
using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));
using Doubles = double __attribute__((vector_size(16)));

inline Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
inline Floats broadcast(float value) {
  return Floats{value, value, value, value};
}
/// Lane by lane; `a` where the comparison fails, so a NaN in `b` never wins.
inline Floats larger(Floats a, Floats b) {
  return b > a ? b : a;
}

inline Doubles low_half(Floats value) {
  return Doubles{value[0], value[1]};
}
inline Doubles high_half(Floats value) {
  return Doubles{value[2], value[3]};
}

}  // namespace slip::sample
