// Counts operator new for the whole test executable.
#include <gtest/gtest.h>

#include "sample/naive.h"
#include "sample/sampler.h"
#include "support/best_tokens.h"
#include "support/count_allocations.h"

namespace slip::sample {
namespace {

TEST(Sampler, allocates_nothing_while_sampling) {
  const int vocab = 5000;
  Sampler sampler(vocab);
  const auto logits = naive::row(vocab, 1);
  std::vector<int> history(3000);
  for (size_t i = 0; i < history.size(); ++i) history[i] = static_cast<int>(i) % vocab;
  TokenMask mask(vocab);
  for (int id = 0; id < vocab; id += 3) mask.allow(id);
  for (unsigned bits = 0; bits < 128; ++bits) {
    Options options;
    if (bits & 1) options.temperature = 1;
    if (bits & 2) options.top_k = 40;
    if (bits & 4) options.top_p = 0.9f;
    if (bits & 8) options.min_p = 0.01f;
    if (bits & 16) options.repetition_penalty = 1.2f;
    if (bits & 32) {
      options.top_logprobs = 20;
      options.logit_bias = {{3, 1.0f}};
      options.suppressed = {4};
    }
    const long before = test::allocations.load();
    for (int position = 0; position < 3; ++position) {
      sampler.sample(logits,
                     {.history = history,
                      .prompt_tokens = 1000,
                      .position = position,
                      .mask = bits & 64 ? &mask : nullptr},
                     options);
    }
    EXPECT_EQ(test::allocations.load() - before, 0) << "options " << bits;
  }
}

TEST(Sampler, allocates_nothing_while_sampling_from_a_list) {
  const int vocab = 5000;
  Sampler sampler(vocab);
  const BestTokens best = test::best_tokens(naive::row(vocab, 1), kMostCandidates);
  TokenMask mask(vocab);
  mask.allow_all();
  mask.forbid(9);
  const std::vector<int> history(50, 7);
  const Options options{.temperature = 1,
                        .top_k = 40,
                        .top_p = 0.9f,
                        .min_p = 0.01f,
                        .repetition_penalty = 1.2f,
                        .logit_bias = {{3, -1.0f}},
                        .suppressed = {4}};
  const long before = test::allocations.load();
  for (int position = 0; position < 3; ++position)
    sampler.sample(Scores{.best = &best}, {.history = history, .position = position, .mask = &mask}, options);
  EXPECT_EQ(test::allocations.load() - before, 0);
}

}  // namespace
}  // namespace slip::sample
