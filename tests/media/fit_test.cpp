#include "media/fit.h"

#include <gtest/gtest.h>

namespace slip::media {
namespace {

TEST(Fit, sizes_and_tokens_are_those_of_the_published_table) {
  struct Row {
    int width, height, budget, to_width, to_height, tokens;
  };
  const Row rows[] = {
      {1920, 1080, 70, 528, 288, 66},
      {1920, 1080, 140, 720, 384, 120},
      {1920, 1080, 280, 1056, 576, 264},
      {1920, 1080, 560, 1488, 816, 527},
      {1920, 1080, 1120, 2112, 1200, 1100},
      {1024, 768, 70, 432, 336, 63},
      {640, 480, 140, 624, 480, 130},
      {1024, 768, 280, 912, 672, 266},
      {640, 480, 560, 1296, 960, 540},
      {1024, 768, 1120, 1824, 1344, 1064},
      {7, 7, 70, 384, 384, 64},
      {3000, 3000, 140, 528, 528, 121},
      {1, 1, 280, 768, 768, 256},
      {512, 512, 560, 1104, 1104, 529},
      {96, 96, 1120, 1584, 1584, 1089},
  };
  for (const Row& row : rows) {
    const Fit got = fit(row.width, row.height, row.budget);
    EXPECT_EQ(got.width, row.to_width) << row.width << " x " << row.height << " at " << row.budget;
    EXPECT_EQ(got.height, row.to_height) << row.width << " x " << row.height << " at " << row.budget;
    EXPECT_EQ(got.soft_tokens, row.tokens);
    EXPECT_EQ(got.patches, 9 * row.tokens);
    EXPECT_EQ(got.budget, row.budget);
  }
}

TEST(Fit, a_strip_thinner_than_a_block_becomes_one_row_of_blocks) {
  // 76 times as high as wide: the width would come to no block, so the height is 76 blocks, cut to the
  // budget.
  const Fit tall = fit(25, 1900, 70);
  EXPECT_EQ(tall.width, 48);
  EXPECT_EQ(tall.height, 70 * 48);
  EXPECT_EQ(tall.soft_tokens, 70);
  const Fit wide = fit(1900, 25, 70);
  EXPECT_EQ(wide.width, 70 * 48);
  EXPECT_EQ(wide.height, 48);
  EXPECT_EQ(fit(32768, 1, 1120).soft_tokens, 1120);
  // Just thick enough.
  EXPECT_EQ(fit(2000, 30, 70).soft_tokens, 68);
}

TEST(Fit, every_shape_gives_whole_blocks_within_the_budget_the_same_lying_or_standing) {
  for (const int budget : kBudgets) {
    for (int width = 1; width <= 32768; width = width * 5 / 3 + 1) {
      for (int height = 1; height <= width; height = height * 7 / 4 + 1) {
        const Fit lying = fit(width, height, budget);
        ASSERT_TRUE(lying.width >= 48 && lying.height >= 48) << width << " x " << height;
        ASSERT_TRUE(lying.width % 48 == 0 && lying.height % 48 == 0) << width << " x " << height;
        ASSERT_LE(lying.soft_tokens, budget) << width << " x " << height;
        ASSERT_EQ(lying.soft_tokens, lying.width / 48 * (lying.height / 48));
        const Fit standing = fit(height, width, budget);
        ASSERT_EQ(standing.width, lying.height);
        ASSERT_EQ(standing.height, lying.width);
      }
    }
  }
}

TEST(Fit, auto_takes_the_smallest_budget_that_keeps_all_detail) {
  EXPECT_EQ(fit(48, 48, kAutoBudget).budget, 70);
  EXPECT_EQ(fit(384, 384, kAutoBudget).budget, 70);
  EXPECT_EQ(fit(385, 384, kAutoBudget).budget, 140);
  EXPECT_EQ(fit(768, 768, kAutoBudget).budget, 280);
  EXPECT_FALSE(fit(768, 768, kAutoBudget).shrunk);
  EXPECT_EQ(fit(4000, 3000, kAutoBudget).budget, 1120);
  EXPECT_TRUE(fit(4000, 3000, kAutoBudget).shrunk);
}

TEST(Fit, only_the_trained_budgets_are_budgets) {
  for (const int budget : {70, 140, 280, 560, 1120, kAutoBudget}) EXPECT_TRUE(is_budget(budget));
  for (const int budget : {-1, 1, 71, 281, 2240}) EXPECT_FALSE(is_budget(budget));
}

}  // namespace
}  // namespace slip::media
