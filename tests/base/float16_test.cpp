#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/noise.h"

namespace slip {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of a half by the definition of the format, computed in double.
double half_by_definition(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                           : exponent == 31 ? (mantissa == 0 ? INFINITY : NAN)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

double bf16_by_definition(uint16_t bits) {
  const int exponent = (bits >> 7) & 255, mantissa = bits & 127;
  const double magnitude = exponent == 0     ? std::ldexp(mantissa, -133)
                           : exponent == 255 ? (mantissa == 0 ? INFINITY : NAN)
                                             : std::ldexp(128 + mantissa, exponent - 134);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(Float16, every_half_widens_to_its_value) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double expected = half_by_definition(static_cast<uint16_t>(bits));
    const float found = to_float(F16{static_cast<uint16_t>(bits)});
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(found), expected) << bits;
      EXPECT_EQ(std::signbit(found), (bits & 0x8000) != 0) << bits;
    }
  }
}

TEST(Float16, every_bf16_widens_to_its_value) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double expected = bf16_by_definition(static_cast<uint16_t>(bits));
    const float found = to_float(Bf16{static_cast<uint16_t>(bits)});
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(found), expected) << bits;
      EXPECT_EQ(std::signbit(found), (bits & 0x8000) != 0) << bits;
    }
  }
}

/// Between each number and the next: the middle goes to the even one, a hair beside it to the nearer one.
template <typename Round, typename Value>
void expect_nearest_even(uint16_t last_finite, Round round, Value value) {
  for (const uint16_t sign : {uint16_t{0}, uint16_t{0x8000}}) {
    for (uint32_t bits = 0; bits <= last_finite; ++bits) {
      const auto low = static_cast<uint16_t>(bits | sign), high = static_cast<uint16_t>((bits + 1) | sign);
      const double below = value(low);
      // Above the last finite number the format would go on with the same step; from its middle on all is
      // infinity.
      const double above =
          bits == last_finite ? below + (below - value(static_cast<uint16_t>(low - 1))) : value(high);
      const auto middle = static_cast<float>((below + above) / 2);
      ASSERT_EQ(static_cast<double>(middle), (below + above) / 2);
      ASSERT_EQ(round(static_cast<float>(below)), low) << bits;
      ASSERT_EQ(round(middle), bits % 2 == 0 ? low : high) << bits;
      ASSERT_EQ(round(std::nextafter(middle, static_cast<float>(below))), low) << bits;
      ASSERT_EQ(round(std::nextafter(middle, sign == 0 ? kInfinity : -kInfinity)), high) << bits;
    }
  }
}

TEST(Float16, halves_round_to_nearest_and_ties_to_even) {
  expect_nearest_even(
      0x7bff, [](float x) { return to_f16(x).bits; }, half_by_definition);
}

TEST(Float16, bf16_rounds_to_nearest_and_ties_to_even) {
  // The middle above the largest bf16 is a float too, so the same walk reaches infinity.
  expect_nearest_even(
      0x7f7f, [](float x) { return to_bf16(x).bits; }, bf16_by_definition);
}

TEST(Float16, what_is_no_number_stays_none_and_infinity_stays_infinite) {
  for (const uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(to_float(to_f16(nan))));
    EXPECT_TRUE(std::isnan(to_float(to_bf16(nan))));
  }
  EXPECT_EQ(to_f16(kInfinity).bits, 0x7c00);
  EXPECT_EQ(to_f16(-kInfinity).bits, 0xfc00);
  EXPECT_EQ(to_f16(std::numeric_limits<float>::max()).bits, 0x7c00);
  EXPECT_EQ(to_bf16(kInfinity).bits, 0x7f80);
  EXPECT_EQ(to_bf16(-kInfinity).bits, 0xff80);
}

TEST(Float16, random_floats_land_on_a_neighbour_that_is_no_farther_than_the_others) {
  for (uint64_t i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(keyed_bits(5, i)));
    if (std::isnan(value)) continue;
    const uint16_t half = to_f16(value).bits;
    if (std::isinf(half_by_definition(half))) {
      EXPECT_GE(std::fabs(value), 65520.0f);
    } else {
      const double distance = std::fabs(half_by_definition(half) - static_cast<double>(value));
      for (const int step : {-1, 1}) {
        const double other = half_by_definition(static_cast<uint16_t>(half + step));
        if (std::isnan(other)) continue;
        ASSERT_LE(distance, std::fabs(other - static_cast<double>(value))) << value;
      }
    }
  }
}

}  // namespace
}  // namespace slip
