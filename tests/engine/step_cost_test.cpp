#include "engine/step_cost.h"

#include <gtest/gtest.h>

#include <functional>

namespace slip::engine {
namespace {

// A backend whose plain steps take so long, each giving every sequence a token.
double tokens_per_second(StepCost& cost, int available, int steps,
                         const std::function<double(int)>& seconds) {
  double tokens = 0, time = 0;
  for (int i = 0; i < steps; ++i) {
    const int taken = cost.sequences(available);
    EXPECT_GE(taken, 1);
    EXPECT_LE(taken, available);
    const double step = seconds(taken);
    cost.add(taken, 0, taken, step);
    tokens += taken;
    time += step;
  }
  return tokens / time;
}

TEST(StepCost, all_decode_together_where_that_is_fastest) {
  StepCost cost;
  const auto seconds = [](int sequences) { return 0.02 + 0.001 * sequences; };
  for (const int count : {1, 2, 5, 17, 64, 3, 128}) {
    const double whole = count / seconds(count);
    EXPECT_GT(tokens_per_second(cost, count, 2000, seconds), 0.99 * whole) << count;
  }
}

TEST(StepCost, sequences_take_turns_where_a_step_for_few_is_faster) {
  const auto seconds = [](int sequences) { return sequences <= 16 ? 0.0095 : 0.022; };
  for (const int count : {17, 20, 32}) {
    StepCost cost(16);
    EXPECT_GT(tokens_per_second(cost, count, 2000, seconds), 0.97 * 16 / 0.0095) << count;
  }
  // With so many the wide path gives more after all.
  StepCost cost(16);
  EXPECT_GT(tokens_per_second(cost, 64, 2000, seconds), 0.97 * 64 / 0.022);
}

TEST(StepCost, a_change_is_noticed) {
  StepCost cost(16);
  double wide = 0.022;
  const auto seconds = [&](int sequences) { return sequences <= 16 ? 0.0095 : wide; };
  tokens_per_second(cost, 20, 1000, seconds);
  wide = 0.01;
  tokens_per_second(cost, 20, 4000, seconds);
  EXPECT_GT(tokens_per_second(cost, 20, 1000, seconds), 0.98 * 20 / 0.01);
}

TEST(StepCost, a_chunk_beside_others_triples_a_step_at_most) {
  StepCost cost;
  for (int i = 0; i < 10; ++i) cost.add(8, 0, 8, 0.04);
  EXPECT_EQ(cost.prompt_rows(8, 512), StepCost::kLeastPromptRows);  // nothing is known yet
  const auto seconds = [](int rows) { return 0.04 + 0.0015 * rows; };
  int without = 0;
  for (int i = 0; i < 200; ++i) {
    const int rows = cost.prompt_rows(8, 512);
    EXPECT_LE(seconds(rows), 3.1 * 0.04) << i;
    cost.add(8, rows, 8, seconds(rows));
    without += rows == 0 ? 1 : 0;
  }
  EXPECT_EQ(without, 200 / 65);
  EXPECT_GT(seconds(cost.prompt_rows(8, 512)), 2.5 * 0.04);
  EXPECT_EQ(cost.prompt_rows(0, 512), 512);
  EXPECT_EQ(StepCost().prompt_rows(8, 512), 0);  // first of all a step to compare with
  EXPECT_EQ(cost.prompt_rows(8, 5), 5);
}

TEST(StepCost, a_chunk_has_sixteen_rows_however_slow_it_is) {
  StepCost cost;
  for (int i = 0; i < 10; ++i) cost.add(2, 0, 2, 0.01);
  for (int i = 0; i < 10; ++i) cost.add(2, 16, 2, 0.5);
  EXPECT_EQ(cost.prompt_rows(2, 512), 16);
}

TEST(StepCost, short_steps_are_left_alone) {
  StepCost cost(2);
  const auto seconds = [](int sequences) { return sequences <= 2 ? 1e-5 : 1e-3 / 2; };
  tokens_per_second(cost, 8, 100, seconds);
  EXPECT_EQ(cost.sequences(8), 8);
  EXPECT_EQ(cost.prompt_rows(8, 512), 512);
}

}  // namespace
}  // namespace slip::engine
