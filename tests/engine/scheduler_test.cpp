#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/noise.h"

namespace slip::engine {
namespace {

Scheduler::Limits limits(int step_rows) {
  return {.step_rows = step_rows, .sequence_rows = step_rows, .sequences = step_rows};
}

struct Granted {
  std::vector<int> rows;
  int guesses = 0;
};

Granted grant(const Scheduler::Limits& limits, const std::vector<Need>& needs, const Budget& budget = {}) {
  Granted granted{.rows = std::vector<int>(needs.size(), -1)};
  Grant grant{.rows = granted.rows};
  Scheduler(limits).grant(needs, budget, grant);
  granted.guesses = grant.guesses;
  return granted;
}

std::vector<int> pick(const Scheduler::Limits& limits, const std::vector<Need>& needs,
                      const Budget& budget = {}) {
  return grant(limits, needs, budget).rows;
}
// Rows of prompts beside others.
Budget beside(int prompt_rows) {
  return {.prompt_rows = prompt_rows};
}

using Rows = std::vector<int>;

TEST(Scheduler, decode_rows_come_before_prompts) {
  EXPECT_EQ(pick(limits(8), {{.known = 100}, {.known = 1}, {.known = 1}}), (Rows{6, 1, 1}));
  EXPECT_EQ(pick(limits(3), {{.known = 100}, {.known = 1}, {.known = 1}}), (Rows{1, 1, 1}));
}

TEST(Scheduler, prompts_share_a_step_equally_and_what_one_leaves_goes_to_the_others) {
  EXPECT_EQ(pick(limits(12), {{.known = 100}, {.known = 100}, {.known = 100}}), (Rows{4, 4, 4}));
  EXPECT_EQ(pick(limits(12), {{.known = 100}, {.known = 2}, {.known = 100}}), (Rows{5, 2, 5}));
  EXPECT_EQ(pick(limits(12), {{.known = 3}, {.known = 2}, {.known = 4}}), (Rows{3, 2, 4}));
  EXPECT_EQ(pick(limits(5), {{.known = 9}, {.known = 9}, {.known = 9}, {.known = 9}}), (Rows{2, 1, 1, 1}));
}

TEST(Scheduler, a_step_that_also_decodes_takes_a_bounded_part_of_a_prompt) {
  EXPECT_EQ(pick(limits(64), {{.known = 100}, {.known = 1}}, beside(16)), (Rows{16, 1}));
  EXPECT_EQ(pick(limits(64), {{.known = 100}}, beside(16)), (Rows{64}));
  EXPECT_EQ(pick(limits(64), {{.known = 100}, {.known = 1}, {.known = 9}}, beside(1)), (Rows{1, 1, 1}));
}

TEST(Scheduler, prompts_may_have_to_wait_but_not_for_nobody) {
  EXPECT_EQ(pick(limits(64), {{.known = 100}, {.known = 1}}, beside(0)), (Rows{0, 1}));
  EXPECT_EQ(pick(limits(64), {{.known = 100}, {.known = 50}}, beside(0)), (Rows{32, 32}));
}

TEST(Scheduler, one_sequence_brings_no_more_rows_than_its_cache_takes) {
  auto narrow = limits(64);
  narrow.sequence_rows = 10;
  EXPECT_EQ(pick(narrow, {{.known = 100}, {.known = 100}}), (Rows{10, 10}));
  EXPECT_EQ(grant(narrow, {{.known = 1, .guessable = true}}).guesses, 9);
}

TEST(Scheduler, guesses_get_rows_after_every_decode_and_leave_prompts_half) {
  const Need guessable{.known = 1, .guessable = true};
  EXPECT_EQ(grant(limits(8), {guessable, guessable}).guesses, 6);
  EXPECT_EQ(grant(limits(3), {guessable, {.known = 1}, {.known = 1}}).guesses, 0);
  EXPECT_EQ(grant(limits(40), {guessable, {.known = 1}}).guesses, 15);
  const Granted beside_one = grant(limits(9), {guessable, {.known = 50}});
  EXPECT_EQ(beside_one.rows, (Rows{1, 4}));
  EXPECT_EQ(beside_one.guesses, 4);
  const Granted beside_two = grant(limits(4), {guessable, {.known = 50}, {.known = 50}});
  EXPECT_EQ(beside_two.rows, (Rows{1, 1, 1}));
  EXPECT_EQ(beside_two.guesses, 1);
}

TEST(Scheduler, where_few_decode_together_they_take_turns) {
  const Need decodes{.known = 1}, reads{.known = 9};
  const std::vector<Need> needs = {decodes, decodes, reads, decodes, decodes};
  EXPECT_EQ(pick(limits(8), needs, {.decodes = 2, .prompt_rows = 3}), (Rows{1, 1, 3, 0, 0}));
  EXPECT_EQ(pick(limits(8), needs, {.decodes = 2, .first = 1, .prompt_rows = 3}), (Rows{0, 1, 3, 1, 0}));
  EXPECT_EQ(pick(limits(8), needs, {.decodes = 2, .first = 4, .prompt_rows = 3}), (Rows{1, 0, 3, 0, 1}));
}

TEST(Scheduler, a_block_comes_whole_or_waits) {
  const Need block{.known = 50, .block = 20};
  EXPECT_EQ(pick(limits(64), {block}, beside(16)), (Rows{50}));
  // It takes more than a prompt may beside others, as it cannot be parted.
  EXPECT_EQ(pick(limits(64), {{.known = 1}, block}, beside(16)), (Rows{1, 20}));
  EXPECT_EQ(pick(limits(64), {{.known = 1}, {.known = 900}, block}, beside(16)), (Rows{1, 1, 20}));
  EXPECT_EQ(pick(limits(64), {block, {.known = 1}, block}, beside(16)), (Rows{20, 1, 0}));
  EXPECT_EQ(pick(limits(24), {block, block}), (Rows{24, 0}));
  // Guesses leave room for it.
  EXPECT_EQ(pick(limits(30), {{.known = 1, .guessable = true}, block}, beside(4)), (Rows{1, 20}));
}

TEST(Scheduler, every_step_is_within_budget_and_leaves_nobody_out) {
  for (uint64_t round = 0; round < 2000; ++round) {
    auto roll = [&, count = uint64_t{0}](uint64_t sides) mutable {
      return static_cast<int>(keyed_bits(round, count++) % sides);
    };
    Scheduler::Limits some{.step_rows = 1 + roll(40), .sequence_rows = 1};
    const Budget budget{.prompt_rows = 1 + roll(20)};
    some.sequence_rows = 1 + roll(static_cast<uint64_t>(some.step_rows));
    some.sequences = 1 + roll(static_cast<uint64_t>(some.step_rows));
    std::vector<Need> needs(static_cast<size_t>(1 + roll(static_cast<uint64_t>(some.sequences))));
    for (Need& need : needs) {
      need = roll(2) == 0 ? Need{.known = 1, .guessable = roll(2) == 0} : Need{.known = 2 + roll(60)};
    }
    const Granted granted = grant(some, needs, budget);
    const Rows& rows = granted.rows;
    ASSERT_GE(granted.guesses, 0);
    ASSERT_LE(std::accumulate(rows.begin(), rows.end(), granted.guesses), some.step_rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_GE(rows[i], 1);
      ASSERT_LE(rows[i], std::min(some.sequence_rows, needs[i].known));
    }
  }
}

}  // namespace
}  // namespace slip::engine
