#include "cli/terminal/closest.h"

#include <gtest/gtest.h>

#include <vector>

namespace slip::cli {
namespace {

const std::vector<std::string> kNames = {"generate", "inspect", "tokenize", "--temp",
                                         "--top-k",  "--top-p", "-m"};

TEST(EditDistance, counts_the_fewest_changes) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("generate", "generate"), 0);
}

TEST(EditDistance, takes_two_swapped_letters_for_one_mistake) {
  EXPECT_EQ(edit_distance("tmep", "temp"), 1);
  EXPECT_EQ(edit_distance("ab", "ba"), 1);
}

TEST(EditDistance, is_the_same_both_ways) {
  EXPECT_EQ(edit_distance("inspect", "inpsetc"), edit_distance("inpsetc", "inspect"));
}

TEST(Closest, finds_what_a_typo_meant) {
  EXPECT_EQ(closest("genrate", kNames), "generate");
  EXPECT_EQ(closest("isnpect", kNames), "inspect");
  EXPECT_EQ(closest("--tmep", kNames), "--temp");
  EXPECT_EQ(closest("--topk", kNames), "--top-k");
}

TEST(Closest, completes_a_word_that_was_cut_short) {
  EXPECT_EQ(closest("gen", kNames), "generate");
  EXPECT_EQ(closest("token", kNames), "tokenize");
}

TEST(Closest, keeps_quiet_when_nothing_is_near) {
  EXPECT_FALSE(closest("banana", kNames));
  EXPECT_FALSE(closest("", kNames));
  EXPECT_FALSE(closest(std::string(100000, 'x'), kNames));
  EXPECT_EQ(did_you_mean("banana", kNames), "");
}

}  // namespace
}  // namespace slip::cli
