#include "cuda/emulator/operands.h"

#include <cstring>

#include "base/float16.h"

namespace slip::emulator {
namespace {

/// One of the two values of register `i`.
float value_of(const Operands& lane, int i, int which) {
  const auto bits = static_cast<uint16_t>(which == 0 ? lane.in[i] : lane.in[i] >> 16);
  return lane.halves ? to_float(F16{bits}) : to_float(Bf16{bits});
}

}  // namespace

void multiply(const Lanes& lanes) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      a[g][2 * t + half] = value_of(lanes[lane], 0, half);
      a[g + 8][2 * t + half] = value_of(lanes[lane], 1, half);
      a[g][2 * t + 8 + half] = value_of(lanes[lane], 2, half);
      a[g + 8][2 * t + 8 + half] = value_of(lanes[lane], 3, half);
      b[2 * t + half][g] = value_of(lanes[lane], 4, half);
      b[2 * t + 8 + half][g] = value_of(lanes[lane], 5, half);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), col = 2 * (lane % 4) + i % 2;
      double sum = lanes[lane].sums[i];
      for (int k = 0; k < 16; ++k) sum += static_cast<double>(a[row][k]) * b[k][col];
      lanes[lane].sums[i] = static_cast<float>(sum);
    }
  }
}

void load_matrices(const Lanes& lanes) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i)
      std::memcpy(&lanes[lane].out[i],
                  static_cast<const std::byte*>(lanes[8 * i + lane / 4].row) + 4 * (lane % 4), 4);
  }
}

void load_transposed(const Lanes& lanes) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      uint16_t low, high;
      const int row = 2 * (lane % 4), col = lane / 4;
      std::memcpy(&low, static_cast<const std::byte*>(lanes[8 * i + row].row) + 2 * col, 2);
      std::memcpy(&high, static_cast<const std::byte*>(lanes[8 * i + row + 1].row) + 2 * col, 2);
      lanes[lane].out[i] = low | static_cast<uint32_t>(high) << 16;
    }
  }
}

uint16_t round_bf16(float value) {
  return to_bf16(value).bits;
}
uint16_t round_half(float value) {
  return to_f16(value).bits;
}
float half_to_float(uint16_t bits) {
  return to_float(F16{bits});
}

}  // namespace slip::emulator
