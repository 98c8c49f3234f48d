#include "speculate/suffix.h"

#include <gtest/gtest.h>

#include "base/noise.h"

namespace slip::speculate {
namespace {

// One text under a drafter.
struct Text {
  explicit Text(std::vector<int> start, int most = 4096) : tokens(std::move(start)) {
    tokens.reserve(static_cast<size_t>(most));
    view = {.id = 1, .tokens = tokens, .most_tokens = most};
    drafter.begin(view);
  }
  ~Text() { drafter.settled(1); }
  void write(std::vector<int> more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
    view.tokens = tokens;
    drafter.committed(view, {});
  }
  Proposal propose(int depth, std::vector<int> given = {}) {
    Proposal proposal{.view = &view, .depth = depth, .drafts = std::move(given)};
    drafter.propose({&proposal, 1});
    return proposal;
  }
  std::vector<int> tokens;
  SequenceView view;
  SuffixDrafter drafter;
};

using Ints = std::vector<int>;

TEST(SuffixDrafter, continues_the_longest_earlier_match) {
  //         v the longer match             v a newer, shorter one
  Text text({1, 2, 3, 4, 50, 51, 52, 9, 9, 3, 4, 60, 61, 62, 8, 2, 3, 4});
  const Proposal proposal = text.propose(3);
  EXPECT_EQ(proposal.drafts, Ints({50, 51, 52}));
  EXPECT_EQ(proposal.match, 3);
}

TEST(SuffixDrafter, prefers_the_newest_of_equal_matches) {
  Text text({3, 4, 50, 51, 7, 3, 4, 60, 61, 8, 3, 4});
  EXPECT_EQ(text.propose(2).drafts, Ints({60, 61}));
}

TEST(SuffixDrafter, says_nothing_without_a_match_of_two) {
  Text text({1, 2, 3, 4, 5, 6, 2});
  EXPECT_TRUE(text.propose(4).drafts.empty());
  EXPECT_EQ(text.propose(4).match, 0);
  EXPECT_TRUE(Text({1}).propose(4).drafts.empty());
  EXPECT_TRUE(Text({1, 1}).propose(4).drafts.empty());
}

TEST(SuffixDrafter, copies_its_own_copy_where_the_text_repeats_itself) {
  Text text({9, 1, 2, 3, 1, 2, 3});
  EXPECT_EQ(text.propose(8).drafts, Ints({1, 2, 3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(Text({5, 5, 5, 5}).propose(4).drafts, Ints({5, 5, 5, 5}));
}

TEST(SuffixDrafter, goes_on_after_the_guesses_of_another) {
  Text text({1, 2, 3, 4, 5, 6, 7, 8, 1, 2});
  const Proposal proposal = text.propose(3, {3, 4});
  EXPECT_EQ(proposal.drafts, Ints({3, 4, 5, 6, 7}));
  EXPECT_EQ(proposal.match, 4);
  const Proposal lost = text.propose(3, {30, 31});
  EXPECT_EQ(lost.drafts, Ints({30, 31}));
  EXPECT_EQ(lost.match, 0);
}

TEST(SuffixDrafter, learns_what_is_written) {
  Text text({1, 2});
  text.write({3, 4, 5});
  text.write({1, 2});
  EXPECT_EQ(text.propose(3).drafts, Ints({3, 4, 5}));
}

TEST(SuffixDrafter, finds_long_matches_among_very_many_short_ones) {
  Ints tokens = {70, 71, 72, 73, 1, 2, 99};
  for (int i = 0; i < 500; ++i) tokens.insert(tokens.end(), {i % 7 + 10, 1, 2, i % 5 + 20});
  tokens.insert(tokens.end(), {70, 71, 72, 73, 1, 2});
  const Proposal proposal = Text(tokens).propose(1);
  EXPECT_EQ(proposal.drafts, Ints({99}));
  EXPECT_EQ(proposal.match, 6);
}

// Against the definition, over texts of few different tokens. Short texts, so that no chain is cut.
TEST(SuffixDrafter, agrees_with_a_search_of_the_whole_text) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const int length = 3 + static_cast<int>(keyed_bits(seed, 0) % 60);
    Ints tokens;
    for (int i = 0; i < length; ++i)
      tokens.push_back(static_cast<int>(keyed_bits(seed, static_cast<uint64_t>(i) + 1) % 4));
    int best = 0, place = -1;
    for (int end = length - 2; end >= 0; --end) {
      int match = 0;
      while (match <= end &&
             tokens[static_cast<size_t>(end - match)] == tokens[static_cast<size_t>(length - 1 - match)]) {
        ++match;
      }
      if (match > best) best = match, place = end;
    }
    const Proposal proposal = Text(tokens).propose(1);
    if (best < SuffixDrafter::kLeastMatch) {
      EXPECT_TRUE(proposal.drafts.empty());
    } else {
      EXPECT_EQ(proposal.match, best) << seed;
      EXPECT_EQ(proposal.drafts, Ints({tokens[static_cast<size_t>(place + 1)]})) << seed;
    }
  }
}

TEST(SuffixDrafter, passes_over_what_stands_for_pictures) {
  constexpr int kPicture = 9;
  SuffixDrafter drafter({kPicture}), plain;
  // Two pictures, each followed by the same words: they match by their words alone, and no picture is copied.
  const Ints tokens = {5, 6, kPicture, kPicture, kPicture, 1,        2, 3,
                       4, 5, 6,        kPicture, kPicture, kPicture, 1, 2};
  const SequenceView view{.id = 1, .tokens = tokens, .most_tokens = 64};
  const auto guess = [&](SuffixDrafter& who, std::span<const int> so_far) {
    SequenceView short_view = view;
    short_view.tokens = so_far;
    who.begin(short_view);
    Proposal proposal{.view = &short_view, .depth = 6, .drafts = {}};
    who.propose({&proposal, 1});
    who.settled(1);
    return std::pair(proposal.drafts, proposal.match);
  };
  EXPECT_EQ(guess(drafter, tokens), std::pair(Ints({3, 4, 5, 6}), 2));
  EXPECT_EQ(guess(plain, tokens).second, 7) << "across the picture";
  const std::span<const int> at_picture(tokens.data(), 11);
  EXPECT_EQ(guess(drafter, at_picture).first, Ints());
  EXPECT_EQ(guess(plain, at_picture).first.front(), kPicture);
}

TEST(SuffixDrafter, keeps_sequences_apart_and_forgets_them) {
  SuffixDrafter drafter;
  Ints one = {1, 2, 3, 1, 2}, two = {1, 2, 4, 1, 2};
  const SequenceView first{.id = 1, .tokens = one, .most_tokens = 64};
  const SequenceView second{.id = 2, .tokens = two, .most_tokens = 64};
  drafter.begin(first);
  drafter.begin(second);
  std::vector<Proposal> proposals = {{.view = &first, .depth = 1, .drafts = {}},
                                     {.view = &second, .depth = 1, .drafts = {}}};
  drafter.propose(proposals);
  EXPECT_EQ(proposals[0].drafts, Ints({3}));
  EXPECT_EQ(proposals[1].drafts, Ints({4}));
  drafter.settled(1);
  proposals[0].drafts.clear();
  drafter.propose(proposals);
  EXPECT_TRUE(proposals[0].drafts.empty());
}

}  // namespace
}  // namespace slip::speculate
