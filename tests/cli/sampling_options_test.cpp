#include "cli/sampling_options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace slip::cli {
namespace {

constexpr int kVocab = 1000;

checkpoint::GenerationConfig gemma_defaults() {
  checkpoint::GenerationConfig config;
  config.do_sample = true;
  config.temperature = 1.0f;
  config.top_k = 64;
  config.top_p = 0.95f;
  config.suppress_ids = {5, 6};
  return config;
}

TEST(ResolveSampling, takes_the_checkpoints_defaults) {
  const sample::Options options = resolve_sampling({}, gemma_defaults(), kVocab);
  EXPECT_EQ(options.temperature, 1.0f);
  EXPECT_EQ(options.top_k, 64);
  EXPECT_EQ(options.top_p, 0.95f);
  EXPECT_EQ(options.suppressed, (std::vector<int>{5, 6}));
  EXPECT_EQ(options.top_logprobs, -1);
}

TEST(ResolveSampling, lets_the_user_overrule_them_even_with_zero) {
  SamplingOptions given;
  given.temperature = 0;
  given.top_k = 0;
  given.top_p = 1;
  given.seed = 9;
  const sample::Options options = resolve_sampling(given, gemma_defaults(), kVocab);
  EXPECT_TRUE(options.greedy());
  EXPECT_EQ(options.top_k, 0);
  EXPECT_EQ(options.top_p, 1);
  EXPECT_EQ(options.seed, 9u);
}

TEST(ResolveSampling, is_greedy_when_the_checkpoint_does_not_sample) {
  checkpoint::GenerationConfig config = gemma_defaults();
  config.do_sample = false;
  EXPECT_TRUE(resolve_sampling({}, config, kVocab).greedy());
}

TEST(ResolveSampling, draws_a_new_seed_each_time_none_is_given) {
  const auto seed = [] { return resolve_sampling({}, gemma_defaults(), kVocab).seed; };
  EXPECT_NE(seed(), seed());
}

TEST(ParseLogitBias, sorts_and_lets_the_last_word_count) {
  const auto biases = parse_logit_bias({"7=1.5,3=-2", "7:4"}, kVocab);
  ASSERT_EQ(biases.size(), 2u);
  EXPECT_EQ(biases[0].id, 3);
  EXPECT_EQ(biases[0].value, -2);
  EXPECT_EQ(biases[1].id, 7);
  EXPECT_EQ(biases[1].value, 4);
}

TEST(ParseLogitBias, refuses_what_is_no_bias) {
  for (const char* bad : {"", "7", "=1", "7=", "x=1", "7=nan", "1000=1", "-1=1", "7=1,", "7=1e9"}) {
    EXPECT_THROW(parse_logit_bias({bad}, kVocab), Error) << bad;
  }
}

}  // namespace
}  // namespace slip::cli
