// A list of the best tokens must give what the whole row gives, for every request that candidates_needed()
// answers for.
#include "sample/candidates.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/noise.h"
#include "sample/naive.h"
#include "sample/sampler.h"
#include "support/best_tokens.h"
#include "support/rounds.h"

namespace slip::sample {
namespace {

// Numbers that a test wants, one after another.
class Dice {
 public:
  explicit Dice(uint64_t seed) : key_(noise_key(seed, 4711)) {}
  int below(int end) { return static_cast<int>(keyed_bits(key_, next_++) % static_cast<uint64_t>(end)); }
  float within(float low, float high) {
    return low + (high - low) * static_cast<float>(keyed_uniform(key_, next_++));
  }
  bool one_in(int count) { return below(count) == 0; }

 private:
  uint64_t key_, next_ = 0;
};

struct Case {
  Options options;
  std::vector<float> logits;
  std::vector<int> history;
  size_t prompt_tokens = 0;
  std::optional<TokenMask> mask;

  const TokenMask* mask_or_null() const { return mask ? &*mask : nullptr; }
  Context context() const {
    return {.history = history,
            .prompt_tokens = prompt_tokens,
            .position = std::ssize(history),
            .mask = mask_or_null()};
  }
  int candidates() const {
    return candidates_needed(options, std::ssize(history), static_cast<int64_t>(prompt_tokens),
                             mask_or_null());
  }
};

// A few tokens are forbidden, most of them among the likeliest; or nearly all are.
TokenMask random_mask(Dice& dice, std::span<const float> logits) {
  const auto vocab = static_cast<int>(logits.size());
  TokenMask mask(vocab);
  if (dice.one_in(3)) {
    for (int i = 1 + dice.below(10); i > 0; --i) mask.allow(dice.below(vocab));
    return mask;
  }
  mask.allow_all();
  const BestTokens best = test::best_tokens(logits, std::min(vocab, kMostCandidates));
  for (int i = dice.below(40); i > 0; --i) {
    const int place = dice.below(40);
    mask.forbid(place < best.count ? best.tokens[place].id : dice.below(vocab));
  }
  return mask;
}

// Any request; most of them can do with a list. Few tokens, or large steps between values, make ties.
Case random_case(uint64_t seed) {
  Dice dice(seed);
  const int vocabs[] = {1, 2, 7, 63, 64, 65, 130, 1000, 3000};
  const int vocab = vocabs[dice.below(9)];
  Case made;
  made.logits = naive::row(vocab, seed, dice.one_in(4) ? 0.2 : 3, dice.one_in(2) ? 0.5 : 0);
  if (dice.one_in(3)) {  // as a head that scores some tokens only
    for (float& logit : made.logits)
      if (!dice.one_in(20)) logit = -std::numeric_limits<float>::infinity();
  }
  Options& o = made.options;
  o.seed = seed;
  if (!dice.one_in(4)) o.temperature = dice.within(0.2f, 3);
  if (!dice.one_in(5)) o.top_k = 1 + dice.below(dice.one_in(2) ? 8 : 100);
  if (dice.one_in(2)) o.top_p = dice.within(0.3f, 0.99f);
  if (dice.one_in(3)) o.min_p = dice.within(0, 0.3f);
  if (dice.one_in(2)) {
    for (int i = dice.below(6); i > 0; --i) o.suppressed.push_back(dice.below(vocab));
    // The likeliest are those whose loss hurts.
    o.suppressed.push_back(
        static_cast<int>(std::max_element(made.logits.begin(), made.logits.end()) - made.logits.begin()));
  }
  if (dice.one_in(3)) {
    for (int id = dice.below(5); id < vocab && o.logit_bias.size() < 20; id += 1 + dice.below(50))
      o.logit_bias.push_back({id, dice.within(-20, dice.one_in(20) ? 1.0f : 0.0f)});
  }
  if (dice.one_in(2)) {
    if (dice.one_in(2)) o.repetition_penalty = dice.within(dice.one_in(8) ? 0.8f : 1.0f, 3);
    if (dice.one_in(2)) o.frequency_penalty = dice.within(dice.one_in(8) ? -1.0f : 0.0f, 4);
    if (dice.one_in(2)) o.presence_penalty = dice.within(dice.one_in(8) ? -1.0f : 0.0f, 4);
    if (dice.one_in(2)) o.penalty_window = dice.below(70);
  }
  if (dice.one_in(10)) o.top_logprobs = dice.below(5);
  for (int i = dice.below(dice.one_in(2) ? 20 : 200); i > 0; --i) {
    // Half of the text is what the model likes most, so that penalties bite.
    const auto best = std::max_element(made.logits.begin(), made.logits.end()) - made.logits.begin();
    const int near = (static_cast<int>(best) + dice.below(3)) % vocab;
    made.history.push_back(dice.one_in(2) ? near : dice.below(vocab));
  }
  if (dice.one_in(2))
    made.prompt_tokens = static_cast<size_t>(dice.below(static_cast<int>(made.history.size()) + 1));
  if (dice.one_in(3)) made.mask = random_mask(dice, made.logits);
  return made;
}

// The token, or the sentence of an error.
template <typename Given>
std::string outcome(Sampler& sampler, const Given& scores, const Case& from) {
  try {
    return std::to_string(sampler.sample(scores, from.context(), from.options).token);
  } catch (const Error& error) {
    return error.what();
  }
}

// Cases of which a list that is `fewer` too short gives another outcome.
int differences(int cases, int fewer, int& listed) {
  int differing = 0;
  listed = 0;
  for (int i = 0; i < cases; ++i) {
    const Case made = random_case(static_cast<uint64_t>(i));
    Sampler sampler(static_cast<int>(made.logits.size()));
    validate(made.options, sampler.vocab());
    const int wanted = made.candidates();
    EXPECT_LE(wanted, kMostCandidates);
    if (wanted == 0) continue;
    ++listed;
    BestTokens best = test::best_tokens(made.logits, wanted - fewer);
    best.wanted = wanted;
    const std::string from_list = outcome(sampler, Scores{.best = &best}, made);
    if (from_list != outcome(sampler, made.logits, made)) {
      ++differing;
      EXPECT_GT(fewer, 0) << "case " << i << ": " << from_list;
    }
  }
  return differing;
}

TEST(Candidates, a_list_gives_the_token_of_the_whole_row_for_any_request) {
  const int cases = test::rounds(30000);
  int listed = 0;
  EXPECT_EQ(differences(cases, 0, listed), 0);
  EXPECT_GT(listed, cases / 3);
}

TEST(Candidates, a_list_that_is_one_token_short_is_noticed) {
  int listed = 0;
  EXPECT_GT(differences(30000, 1, listed), 300);
}

TEST(Candidates, a_list_gives_the_token_of_the_whole_row_on_a_full_vocabulary) {
  const int vocab = 262144;
  Sampler sampler(vocab);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto logits = naive::row(vocab, seed, 3, seed % 3 == 0 ? 0.25 : 0);
    Options options{.temperature = seed % 4 == 0 ? 0.0f : 1.0f, .top_k = 64, .top_p = 0.95f, .seed = seed};
    options.suppressed = {5, 9};
    const BestTokens best = test::best_tokens(logits, candidates_needed(options, 0, 0));
    for (int position = 0; position < 20; ++position) {
      EXPECT_EQ(sampler.sample(Scores{.best = &best}, {.position = position}, options).token,
                sampler.sample(logits, {.position = position}, options).token);
    }
  }
}

TEST(Candidates, counts_what_is_kept_and_what_may_be_lowered) {
  EXPECT_EQ(candidates_needed({}, 1000, 0), 1);
  EXPECT_EQ(candidates_needed({.temperature = 1, .top_k = 64, .top_p = 0.95f, .min_p = 0.1f}, 1000, 0), 64);
  EXPECT_EQ(candidates_needed({.temperature = 1, .top_k = 128}, 1000, 0), 128);
  EXPECT_EQ(candidates_needed({.logit_bias = {{3, -5.0f}, {4, 0.0f}}, .suppressed = {1}}, 1000, 0), 4);
  EXPECT_EQ(candidates_needed({.repetition_penalty = 1.1f}, 20, 0), 21);
  EXPECT_EQ(candidates_needed(
                {.temperature = 1, .top_k = 64, .repetition_penalty = 1.1f, .penalty_window = 64}, 1000, 0),
            128);
  EXPECT_EQ(candidates_needed({.repetition_penalty = 0.5f, .penalty_window = 0}, 1000, 0), 1);
}

TEST(Candidates, counts_the_prompt_only_where_a_penalty_reaches_it) {
  EXPECT_EQ(candidates_needed({.frequency_penalty = 0.5f}, 1000, 990), 11);
  EXPECT_EQ(candidates_needed({.presence_penalty = 0.5f, .penalty_window = 4}, 1000, 990), 5);
  EXPECT_EQ(candidates_needed({.presence_penalty = 0.5f, .penalty_window = 40}, 1000, 990), 11);
  EXPECT_EQ(candidates_needed({.repetition_penalty = 1.1f, .penalty_window = 40}, 1000, 990), 41);
  EXPECT_EQ(candidates_needed({.repetition_penalty = 1.1f}, 1000, 990), 0);
}

TEST(Candidates, counts_what_a_mask_forbids) {
  TokenMask mask(300);
  mask.allow_all();
  EXPECT_EQ(candidates_needed({}, 0, 0, &mask), 1);
  for (int id = 0; id < 50; ++id) mask.forbid(id);
  EXPECT_EQ(candidates_needed({}, 0, 0, &mask), 51);
  EXPECT_EQ(candidates_needed({.temperature = 1, .top_k = 64}, 0, 0, &mask), 114);
  for (int id = 50; id < 128; ++id) mask.forbid(id);
  EXPECT_EQ(candidates_needed({}, 0, 0, &mask), 0);
}

TEST(Candidates, asks_for_all_logits_where_a_list_could_miss_something) {
  EXPECT_EQ(candidates_needed({.temperature = 1}, 0, 0), 0);
  EXPECT_EQ(candidates_needed({.temperature = 1, .top_p = 0.9f}, 0, 0), 0);
  EXPECT_EQ(candidates_needed({.temperature = 1, .min_p = 0.1f}, 0, 0), 0);
  EXPECT_EQ(candidates_needed({.temperature = 1, .top_k = 129}, 0, 0), 0);
  EXPECT_EQ(candidates_needed({.top_logprobs = 0}, 0, 0), 0);
  EXPECT_EQ(candidates_needed({.logit_bias = {{3, 0.1f}}}, 0, 0), 0);
  EXPECT_EQ(candidates_needed({.repetition_penalty = 0.9f}, 1, 0), 0);
  EXPECT_EQ(candidates_needed({.frequency_penalty = -0.1f}, 1, 0), 0);
  EXPECT_EQ(candidates_needed({.presence_penalty = -0.1f}, 1, 0), 0);
  EXPECT_EQ(candidates_needed({.repetition_penalty = 1.1f}, 128, 0), 0);
}

TEST(Candidates, a_list_of_a_damaged_row_fails_as_the_row_does) {
  Sampler sampler(100);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Case made;
    made.logits = naive::row(100, 1);
    made.logits[70] = bad;
    const BestTokens best = test::best_tokens(made.logits, 1);
    const std::string expected = outcome(sampler, made.logits, made);
    EXPECT_EQ(outcome(sampler, Scores{.best = &best}, made), expected);
    EXPECT_NE(expected.find("NaN"), std::string::npos) << expected;
  }
}

}  // namespace
}  // namespace slip::sample
