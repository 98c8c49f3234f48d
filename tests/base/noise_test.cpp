#include "base/noise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

namespace slip {
namespace {

TEST(Noise, the_stream_of_key_0_is_the_published_splitmix64_of_seed_0) {
  EXPECT_EQ(keyed_bits(0, 0), 0xe220a8397b1dcdafull);
  EXPECT_EQ(keyed_bits(0, 1), 0x6e789e6aa1b965f4ull);
  EXPECT_EQ(keyed_bits(0, 2), 0x06c45d188009454full);
}

TEST(Noise, the_mixer_can_be_undone_so_no_two_inputs_collide) {
  // The inverse, built from the inverses of its five steps.
  const auto unshift = [](uint64_t x, int by) {
    uint64_t y = x;
    for (int done = by; done < 64; done += by) y = x ^ (y >> by);
    return y;
  };
  const auto inverse = [](uint64_t odd) {
    uint64_t x = odd;  // right to 3 bits, each Newton step doubles that
    for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
    return x;
  };
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t value = i * 0x123456789abcdefull;
    uint64_t x = unshift(mix64(value), 31) * inverse(0x94d049bb133111ebull);
    x = unshift(x, 27) * inverse(0xbf58476d1ce4e5b9ull);
    ASSERT_EQ(unshift(x, 30), value);
  }
}

TEST(Noise, seeds_and_streams_next_to_each_other_have_keys_of_their_own) {
  std::set<uint64_t> keys;
  for (uint64_t seed = 0; seed < 64; ++seed) {
    for (uint64_t stream = 0; stream < 64; ++stream) keys.insert(noise_key(seed, stream));
  }
  EXPECT_EQ(keys.size(), 64u * 64);
}

TEST(Noise, neighbouring_indices_and_keys_differ_in_about_half_their_bits) {
  double by_index = 0, by_seed = 0;
  constexpr int kDraws = 4000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    by_index += std::popcount(keyed_bits(noise_key(1, 2), i) ^ keyed_bits(noise_key(1, 2), i + 1));
    by_seed += std::popcount(keyed_bits(noise_key(i, 2), 9) ^ keyed_bits(noise_key(i + 1, 2), 9));
  }
  // The mean of 4000 such counts has a deviation of 0.06; five of them are 0.3.
  EXPECT_NEAR(by_index / kDraws, 32, 0.35);
  EXPECT_NEAR(by_seed / kDraws, 32, 0.35);
}

TEST(Noise, uniforms_stay_inside_0_and_1_and_fill_it_evenly) {
  constexpr int kBins = 64, kDraws = 64000;
  std::vector<int> bins(kBins);
  double sum = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double value = keyed_uniform(noise_key(3, 4), i);
    ASSERT_GT(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
    ++bins[static_cast<size_t>(value * kBins)];
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.006);
  double chi = 0;
  for (const int count : bins) chi += std::pow(count - kDraws / kBins, 2) / (kDraws / kBins);
  EXPECT_LT(chi, 63 + 5 * std::sqrt(2.0 * 63));  // 63 degrees of freedom, five deviations
  EXPECT_GT(chi, 63 - 5 * std::sqrt(2.0 * 63));
}

}  // namespace
}  // namespace slip
