// The comparisons that backends are judged with: each must be able to fail.
#include "support/compare.h"

#include <gtest/gtest.h>

namespace slip::test {
namespace {

using Rows = std::vector<std::vector<float>>;

TEST(SameBits, rows_that_nobody_asked_for_are_passed_over) {
  EXPECT_TRUE(same_bits(Rows{{}, {1, 2}}, Rows{{3, 4}, {1, 2}}));
}

TEST(SameBits, nothing_to_compare_is_a_failure) {
  EXPECT_FALSE(same_bits(Rows{}, Rows{}));
  EXPECT_FALSE(same_bits(Rows{{}, {}}, Rows{{1}, {2}}));
}

TEST(SameBits, one_bit_is_a_failure) {
  EXPECT_FALSE(same_bits(Rows{{1, 2}}, Rows{{1, std::nextafter(2.0f, 3.0f)}}));
  EXPECT_FALSE(same_bits(Rows{{0.0f}}, Rows{{-0.0f}}));
}

TEST(SameBits, other_sizes_are_a_failure) {
  EXPECT_FALSE(same_bits(Rows{{1}}, Rows{{1}, {2}}));
  EXPECT_FALSE(same_bits(Rows{{1}, {2}}, Rows{{1}}));
  EXPECT_FALSE(same_bits(Rows{{1}}, Rows{{1, 2}}));
  EXPECT_FALSE(same_bits(Rows{{1, 2}}, Rows{{1}}));
}

TEST(RelativeError, is_the_share_of_the_wanted_values) {
  EXPECT_DOUBLE_EQ(relative_error({3, 4}, std::vector<float>{3, 4}), 0);
  EXPECT_DOUBLE_EQ(relative_error({3, 4.5f}, std::vector<double>{3, 4}), 0.1);
  EXPECT_DOUBLE_EQ(peak_error({3, 4.5f}, {3, 4}), 0.125);
}

TEST(RelativeError, is_infinite_where_there_is_nothing_to_compare) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto error : {relative_error<float>, peak_error}) {
    EXPECT_TRUE(std::isinf(error({}, {})));
    EXPECT_TRUE(std::isinf(error({}, {1})));
    EXPECT_TRUE(std::isinf(error({1, 2}, {1})));
    EXPECT_TRUE(std::isinf(error({1, nan}, {1, 2})));
  }
}

}  // namespace
}  // namespace slip::test
