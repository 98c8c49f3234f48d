// bfloat16 and IEEE half as storage types: conversions only, arithmetic happens in float.
// Rounding is to nearest even, as PyTorch and MLX do, so a stored value reads back to the same bits
// everywhere.
#pragma once

#include <bit>
#include <cstdint>

namespace slip {

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

inline float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

inline Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40)};  // quiet NaN
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline float round_to_bf16(float value) {
  return to_float(to_bf16(value));
}

float to_float(F16 value);
F16 to_f16(float value);

}  // namespace slip
