// From what a caller asks for to what the engine gets.
#include "session/generation.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/scripted_model.h"
#include "synth/synthetic.h"

namespace slip::session {
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
  SamplingChoice given;
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

TEST(ResolveSampling, refuses_a_bias_on_a_token_that_is_not_there) {
  SamplingChoice given;
  given.logit_bias = {{7, 1}, {3, -2}};
  EXPECT_EQ(resolve_sampling(given, gemma_defaults(), kVocab).logit_bias[0].id, 3);
  given.logit_bias = {{kVocab, 1}};
  EXPECT_THROW(resolve_sampling(given, gemma_defaults(), kVocab), Error);
}

class MakeRequest : public testing::Test {
 protected:
  engine::Request make(const Generation& generation, const Prompt& prompt = Prompt({5, 6})) const {
    return make_request({*checkpoint_, &tokenizer_}, prompt, generation);
  }
  test::ScriptedVocabulary vocabulary_{test::thoughtful_script()};
  text::Tokenizer tokenizer_ = text::Tokenizer::parse(vocabulary_.tokenizer_json(), "scripted");
  std::unique_ptr<checkpoint::Checkpoint> checkpoint_ = synth::synthesize({.shape = "tiny-e2b"});
};

TEST_F(MakeRequest, stops_at_every_id_that_ends_a_reply) {
  checkpoint_->generation.stop_ids = {400};
  checkpoint_->config.eos_ids = {401};
  std::vector<int> want = {400, 401, vocabulary_.id("<eos>"), vocabulary_.id("<turn|>"),
                           vocabulary_.id("<unk>")};
  std::sort(want.begin(), want.end());
  EXPECT_EQ(make({}).stop_ids, want);
  want.push_back(9);
  EXPECT_EQ(make({.stop_ids = {9}}).stop_ids, want);
  EXPECT_EQ(make({.ignore_stop_ids = true, .stop_ids = {9}}).stop_ids, std::vector<int>{9});
}

TEST_F(MakeRequest, choices_differ_in_their_seed_and_say_who_they_are) {
  const Generation generation{.sampling = {.seed = 7}, .choice = 3};
  EXPECT_EQ(make(generation).sampling.seed, 10u);
  EXPECT_EQ(make(generation).choice, 3);
}

TEST_F(MakeRequest, media_take_their_positions_in_the_prompt) {
  Prompt prompt({5, 6});
  prompt.add(Media{.rows = 3, .span = Media::Span::kBothWays});
  prompt.add({7});
  EXPECT_EQ(prompt.size(), 6u);
  const engine::Request request = make({}, prompt);
  ASSERT_EQ(request.prompt.size(), 6u);
  EXPECT_EQ(request.prompt.back(), 7);
  ASSERT_EQ(request.media.size(), 1u);
  EXPECT_EQ(request.media[0].first, 2);
  EXPECT_EQ(request.media[0].rows, 3);
  EXPECT_TRUE(request.media[0].both_ways);
}

TEST_F(MakeRequest, without_a_tokenizer_there_are_only_ids) {
  const GenerationSource source{*checkpoint_};
  EXPECT_THROW(make_request(source, Prompt({5}), {}), Error);
  EXPECT_EQ(make_request(source, Prompt({5}), {.form = ReplyForm::kTokens}).reply, nullptr);
}

}  // namespace
}  // namespace slip::session
