// What the tensor cores and the loads of their operands do, once all lanes of a warp have brought their part.
#pragma once

#include <cstdint>

namespace slip::emulator {

inline constexpr int kLanes = 32;

/// Of one lane.
struct Operands {
  uint32_t in[6] = {};        // registers a0 .. a3, b0, b1
  bool halves = false;        // which hold halves, not bf16
  float sums[4] = {};         // to which products are added
  const void* row = nullptr;  // of 8 x 8 matrices
  uint32_t out[4] = {};
};
/// Of a warp.
struct Lanes {
  Operands* all[kLanes];
  Operands& operator[](int lane) const { return *all[lane]; }
};

/// mma(), load_matrices() and load_transposed() of device.h.
void multiply(const Lanes& lanes);
void load_matrices(const Lanes& lanes);
void load_transposed(const Lanes& lanes);

/// Conversions of device.h.
uint16_t round_bf16(float value);
uint16_t round_half(float value);
float half_to_float(uint16_t bits);

}  // namespace slip::emulator
