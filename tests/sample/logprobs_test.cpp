#include <gtest/gtest.h>

#include "sample/naive.h"
#include "sample/sampler.h"

namespace slip::sample {
namespace {

TEST(Logprobs, are_the_models_own_whatever_the_options) {
  const int vocab = 1000;
  const auto logits = naive::row(vocab, 21);
  Sampler sampler(vocab);
  Options plain, bent;
  plain.top_logprobs = bent.top_logprobs = 5;
  bent.temperature = 1.5f;
  bent.top_k = 3;
  bent.repetition_penalty = 2;
  bent.logit_bias = {{7, 100.0f}};
  const std::vector<int> history = {1, 2, 3};
  const Sampled greedy = sampler.sample(logits, {.history = history, .position = 3}, plain);
  const std::vector<TokenLogprob> top(greedy.top.begin(), greedy.top.end());
  EXPECT_EQ(greedy.token, top[0].id);
  EXPECT_EQ(greedy.logprob, top[0].logprob);

  const Sampled sampled = sampler.sample(logits, {.history = history, .position = 3}, bent);
  EXPECT_EQ(sampled.token, 7);
  EXPECT_NEAR(sampled.logprob, naive::logprob(logits, 7), 1e-5);
  ASSERT_EQ(sampled.top.size(), top.size());
  for (size_t i = 0; i < top.size(); ++i) {
    EXPECT_EQ(sampled.top[i].id, top[i].id);
    EXPECT_EQ(sampled.top[i].logprob, top[i].logprob);
  }
}

TEST(Logprobs, match_a_plain_log_softmax) {
  for (const int vocab : {1, 7, 1000, 262144}) {
    for (const double spread : {0.01, 3.0, 30.0}) {
      const auto logits = naive::row(vocab, 31, spread);
      Sampler sampler(vocab);
      Options options;
      options.top_logprobs = kMaxTopLogprobs;
      const Sampled sampled = sampler.sample(logits, {.position = 0}, options);
      ASSERT_EQ(sampled.top.size(), static_cast<size_t>(std::min(vocab, kMaxTopLogprobs)));
      EXPECT_NEAR(sampled.logprob, naive::logprob(logits, sampled.token), 1e-5);
      EXPECT_NEAR(sampled.top.back().logprob, naive::logprob(logits, sampled.top.back().id), 1e-5);
    }
  }
}

TEST(Logprobs, the_top_list_is_sorted_with_lower_ids_first_among_equals) {
  const int vocab = 700;
  const auto logits = naive::row(vocab, 41, 2, 1);
  std::vector<int> order(vocab);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  Sampler sampler(vocab);
  Options options;
  options.top_logprobs = 20;
  const Sampled sampled = sampler.sample(logits, {.position = 0}, options);
  ASSERT_EQ(sampled.top.size(), 20u);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(sampled.top[i].id, order[i]);
}

TEST(Logprobs, are_not_computed_unless_asked_for) {
  const auto logits = naive::row(50, 1);
  Sampler sampler(50);
  Options options;
  EXPECT_TRUE(sampler.sample(logits, {.position = 0}, options).top.empty());
  EXPECT_EQ(sampler.sample(logits, {.position = 0}, options).logprob, 0);
  options.top_logprobs = 0;
  EXPECT_TRUE(sampler.sample(logits, {.position = 0}, options).top.empty());
  EXPECT_LT(sampler.sample(logits, {.position = 0}, options).logprob, 0);
}

TEST(Weight, is_an_accurate_exponential_that_sums_exactly_in_any_order) {
  const Quantum quantum(262144);
  std::vector<double> weights;
  for (int i = 0; i <= 20000; ++i) {
    const float x = -static_cast<float>(i) * 0.0043f;
    const double weight = exp_nonpositive(broadcast(x))[0];
    EXPECT_NEAR(weight / std::exp(static_cast<double>(x)), 1.0, 4e-7) << x;
    EXPECT_LE(weight, 1.0);
    EXPECT_TRUE(x >= quantum.negligible() || quantum.round(weight) == 0) << x;
    weights.push_back(quantum.round(weight));
  }
  const double forwards = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double backwards = std::accumulate(weights.rbegin(), weights.rend(), 0.0);
  EXPECT_EQ(forwards, backwards);
  EXPECT_EQ(exp_nonpositive(broadcast(0.0f))[0], 1.0f);
  EXPECT_EQ(quantum.round<double>(exp_nonpositive(broadcast(-std::numeric_limits<float>::infinity()))[0]), 0);
}

}  // namespace
}  // namespace slip::sample
