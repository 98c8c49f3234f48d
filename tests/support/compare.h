// Comparisons of results with what they should be. Each fails where there is nothing to compare, where sizes
// differ, and where a value is not a number: a run that computed nothing must not pass.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace slip::test {

/// Rows by position, to the bit. A row of `got` may be empty (nobody asked for its output), but not all of
/// them.
inline testing::AssertionResult same_bits(const std::vector<std::vector<float>>& got,
                                          const std::vector<std::vector<float>>& want) {
  if (got.size() != want.size())
    return testing::AssertionFailure() << got.size() << " positions instead of " << want.size();
  size_t compared = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].empty()) continue;
    if (got[i].size() != want[i].size())
      return testing::AssertionFailure()
             << got[i].size() << " values instead of " << want[i].size() << " at position " << i;
    if (std::memcmp(got[i].data(), want[i].data(), got[i].size() * sizeof(float)) != 0)
      return testing::AssertionFailure() << "other bits at position " << i;
    ++compared;
  }
  if (compared == 0) return testing::AssertionFailure() << "there is nothing to compare";
  return testing::AssertionSuccess();
}

inline void expect_same_bits(const std::vector<std::vector<float>>& got,
                             const std::vector<std::vector<float>>& want, const std::string& what) {
  ASSERT_TRUE(same_bits(got, want)) << what;
}

/// Root of the summed squares of the differences, over that of the wanted values. Infinite where the two
/// cannot be compared.
template <typename T>
double relative_error(const std::vector<float>& got, const std::vector<T>& want) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (got.size() != want.size() || want.empty()) return kInfinity;
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  const double error = std::sqrt(difference / size);
  return std::isnan(error) ? kInfinity : error;
}

/// The largest difference over the largest wanted magnitude. Infinite where the two cannot be compared.
inline double peak_error(const std::vector<float>& got, const std::vector<float>& want) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (got.size() != want.size() || want.empty()) return kInfinity;
  double difference = 0, size = 1e-6;
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = std::abs(static_cast<double>(got[i]) - want[i]);
    if (std::isnan(off)) return kInfinity;
    difference = std::max(difference, off);
    size = std::max(size, static_cast<double>(std::abs(want[i])));
  }
  return difference / size;
}

}  // namespace slip::test
