#include "speculate/round.h"

#include <gtest/gtest.h>

#include <vector>

#include "speculate/statistics.h"

namespace slip::speculate {
namespace {

struct Picked {
  int token;
};

struct Walk {
  Outcome outcome;
  std::vector<int> taken;
  std::vector<bool> right;
};

Walk walk(const std::vector<int>& model, const std::vector<int>& guesses, int end_after = 100) {
  Walk walk;
  walk.outcome = accept(
      static_cast<int>(guesses.size()) + 1, guesses,
      [&](int row) { return Picked{model[static_cast<size_t>(row)]}; },
      [&](const Picked& picked, int, bool right) {
        walk.taken.push_back(picked.token);
        walk.right.push_back(right);
        return static_cast<int>(walk.taken.size()) < end_after;
      });
  return walk;
}

TEST(Round, accepts_up_to_the_first_difference_and_takes_the_models_token_there) {
  const Walk some = walk({1, 2, 9, 4}, {1, 2, 3});
  EXPECT_EQ(some.taken, std::vector<int>({1, 2, 9}));
  EXPECT_EQ(some.right, std::vector<bool>({true, true, false}));
  EXPECT_EQ(some.outcome.accepted, 2);
  EXPECT_EQ(some.outcome.judged, 3);
  EXPECT_EQ(some.outcome.kept_rows, 2);
}

TEST(Round, always_takes_one_token) {
  EXPECT_EQ(walk({7}, {}).taken, std::vector<int>({7}));
  EXPECT_EQ(walk({7}, {}).outcome.judged, 0);
  EXPECT_EQ(walk({7, 8}, {6}).taken, std::vector<int>({7}));
}

TEST(Round, takes_one_more_than_all_guesses) {
  const Walk all = walk({1, 2, 3}, {1, 2});
  EXPECT_EQ(all.taken, std::vector<int>({1, 2, 3}));
  EXPECT_EQ(all.outcome.accepted, 2);
  EXPECT_EQ(all.outcome.judged, 2);
  EXPECT_EQ(all.outcome.kept_rows, 2);
}

TEST(Round, the_guess_that_ends_the_text_counts_but_its_row_does_not_stay) {
  const Walk cut = walk({1, 2, 3, 4}, {1, 2, 3}, 2);
  EXPECT_EQ(cut.taken, std::vector<int>({1, 2}));
  EXPECT_EQ(cut.outcome.accepted, 2);
  EXPECT_EQ(cut.outcome.judged, 2);
  EXPECT_EQ(cut.outcome.kept_rows, 1);
}

TEST(Statistics, count_by_position_and_drafter) {
  Statistics statistics;
  const char* mtp = "mtp";
  const char* suffix = "suffix";
  statistics.count(0, mtp, true);
  statistics.count(1, mtp, false);
  statistics.count(2, suffix, false);
  statistics.count(40, suffix, true);
  EXPECT_EQ(statistics.drafted, 4);
  EXPECT_EQ(statistics.accepted, 2);
  EXPECT_EQ(statistics.drafted_at[1], 1);
  EXPECT_EQ(statistics.accepted_at[1], 0);
  EXPECT_EQ(statistics.accepted_at[kMostDepth], 1);
  EXPECT_EQ(statistics.of(suffix).drafted, 2);
  EXPECT_EQ(statistics.of(mtp).accepted, 1);
}

}  // namespace
}  // namespace slip::speculate
