#include "sample/sampler.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "sample/naive.h"

namespace slip::sample {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every subset of the options, at values that bite on the rows of naive::row().
Options combination(unsigned bits, int vocab) {
  Options o;
  if (bits & 1) o.temperature = 0.9f;
  if (bits & 2) o.top_k = 40;
  if (bits & 4) o.top_p = 0.9f;
  if (bits & 8) o.min_p = 0.02f;
  if (bits & 16) o.repetition_penalty = 1.3f;
  if (bits & 32) {
    o.frequency_penalty = 0.4f;
    o.presence_penalty = -0.7f;
    o.penalty_window = 5;
  }
  if (bits & 64) {
    for (int id = 0; id < vocab; id += 3)
      o.logit_bias.push_back({id, 0.25f * static_cast<float>(id % 7) - 1});
  }
  if (bits & 128) {
    for (int id = 1; id < vocab; id += 4) o.suppressed.push_back(id);
  }
  return o;
}

std::vector<int> history_of(int vocab, uint64_t seed, int length) {
  std::vector<int> history;
  for (int i = 0; i < length; ++i) {
    history.push_back(
        static_cast<int>(keyed_bits(seed, static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocab)));
  }
  return history;
}

void expect_like_the_definition(int vocab, unsigned first, unsigned step, int rows, double spread,
                                double tie_step) {
  Sampler sampler(vocab);
  TokenMask mask(vocab);
  for (int id = 0; id < vocab; ++id) {
    if (id % 5 < 3 || id / 64 == 7) mask.allow(id);
  }
  for (unsigned bits = first; bits < 512; bits += step) {
    Options options = combination(bits, vocab);
    validate(options, vocab);
    for (int i = 0; i < rows; ++i) {
      const uint64_t seed = bits * 1000 + static_cast<uint64_t>(i);
      const auto logits = naive::row(vocab, seed, spread, tie_step);
      const auto history = history_of(vocab, seed, i * 3);
      options.seed = seed;
      const Context context{.history = history,
                            .prompt_tokens = seed % 3 == 0 ? 0 : seed % (history.size() + 1),
                            .position = i,
                            .mask = bits & 256 ? &mask : nullptr};
      ASSERT_EQ(sampler.sample(logits, context, options).token, naive::sample(logits, context, options))
          << "options " << bits << " row " << i;
    }
  }
}

TEST(Sampler, follows_the_definition_for_every_combination_of_options) {
  expect_like_the_definition(1, 0, 1, 2, 3, 0);
  expect_like_the_definition(7, 0, 1, 20, 3, 0);
  expect_like_the_definition(64, 0, 1, 5, 3, 0);
  expect_like_the_definition(1000, 0, 1, 5, 3, 0);
}

TEST(Sampler, follows_the_definition_among_many_equal_values) {
  expect_like_the_definition(7, 0, 1, 10, 1, 1);
  expect_like_the_definition(1000, 0, 1, 5, 2, 2);
}

TEST(Sampler, follows_the_definition_on_flat_rows) {
  expect_like_the_definition(1000, 1, 2, 4, 0.01, 0);
}

TEST(Sampler, follows_the_definition_on_a_full_vocabulary) {
  // Filters and draws; history options would make the naive count take minutes.
  Sampler sampler(262144);
  for (const double spread : {3.0, 0.3}) {
    const auto logits = naive::row(262144, 5, spread);
    for (unsigned bits = 1; bits < 16; bits += 2) {
      for (const float temperature : {0.2f, 1.0f, 1.7f}) {
        Options options = combination(bits, 262144);
        options.temperature = temperature;
        options.seed = bits;
        ASSERT_EQ(sampler.sample(logits, {.position = 9}, options).token,
                  naive::sample(logits, {.position = 9}, options))
            << "spread " << spread << " options " << bits << " temperature " << temperature;
      }
    }
  }
}

TEST(Sampler, plain_temperature_agrees_with_the_definition_on_many_draws) {
  const int vocab = 3000;
  Sampler sampler(vocab);
  Options options;
  for (const float temperature : {0.05f, 1.0f, 20.0f}) {
    options.temperature = temperature;
    const auto logits = naive::row(vocab, 8);
    for (int position = 0; position < 300; ++position) {
      ASSERT_EQ(sampler.sample(logits, {.position = position}, options).token,
                naive::sample(logits, {.position = position}, options));
    }
  }
}

TEST(Sampler, draws_follow_the_softmax) {
  // Chi-square over 20 tokens with 20,000 positions: 19 degrees of freedom, 43.8 is the 0.1 % point.
  const int vocab = 20, draws = 20000;
  const auto logits = naive::row(vocab, 3, 0.5);
  for (const float temperature : {0.7f, 1.0f, 2.0f}) {
    Sampler sampler(vocab);
    Options options;
    options.temperature = temperature;
    options.seed = 1234;
    std::vector<int> seen(vocab);
    for (int i = 0; i < draws; ++i)
      ++seen[static_cast<size_t>(sampler.sample(logits, {.position = i}, options).token)];
    std::vector<float> scaled(logits);
    for (float& value : scaled) value /= temperature;
    double chi_square = 0;
    for (int id = 0; id < vocab; ++id) {
      const double expected = draws * std::exp(naive::logprob(scaled, id));
      chi_square +=
          (seen[static_cast<size_t>(id)] - expected) * (seen[static_cast<size_t>(id)] - expected) / expected;
    }
    EXPECT_LT(chi_square, 43.8) << "temperature " << temperature;
  }
}

TEST(Sampler, seeds_draw_independently_at_one_position) {
  const int vocab = 4, draws = 20000;
  const std::vector<float> logits(vocab, 1.0f);
  Sampler sampler(vocab);
  Options options;
  options.temperature = 1;
  std::vector<int> seen(vocab);
  for (int i = 0; i < draws; ++i) {
    options.seed = static_cast<uint64_t>(i);
    ++seen[static_cast<size_t>(sampler.sample(logits, {.position = 42}, options).token)];
  }
  double chi_square = 0;
  for (const int count : seen) chi_square += (count - draws / 4.0) * (count - draws / 4.0) / (draws / 4.0);
  EXPECT_LT(chi_square, 16.3);  // 3 degrees of freedom, 0.1 % point
}

TEST(Sampler, a_draw_does_not_depend_on_what_was_drawn_before) {
  const int vocab = 500;
  Sampler used(vocab);
  Options options = combination(0xff, vocab);
  options.top_logprobs = 5;
  std::vector<int> backwards;
  TokenMask mask(vocab);
  for (int id = 0; id < vocab; id += 2) mask.allow(id);
  const auto at = [&](std::span<const int> history) {
    return Context{.history = history,
                   .prompt_tokens = history.size() / 2,
                   .position = std::ssize(history),
                   .mask = &mask};
  };
  for (int position = 49; position >= 0; --position) {
    const auto logits = naive::row(vocab, static_cast<uint64_t>(position));
    const auto history = history_of(vocab, 4, position);
    backwards.push_back(used.sample(logits, at(history), options).token);
  }
  for (int position = 0; position < 50; ++position) {
    Sampler fresh(vocab);
    const auto logits = naive::row(vocab, static_cast<uint64_t>(position));
    const auto history = history_of(vocab, 4, position);
    EXPECT_EQ(fresh.sample(logits, at(history), options).token,
              backwards[static_cast<size_t>(49 - position)]);
  }
}

TEST(Sampler, equal_logits_go_to_the_lowest_id) {
  Sampler sampler(200);
  std::vector<float> logits(200, -1.0f);
  logits[150] = logits[70] = logits[71] = 2.0f;
  EXPECT_EQ(sampler.sample(logits, {.position = 0}, {}).token, 70);
  Options options;
  options.temperature = 1;
  options.top_k = 1;
  for (int position = 0; position < 20; ++position) {
    EXPECT_EQ(sampler.sample(logits, {.position = position}, options).token, 70);
  }
}

TEST(Sampler, a_vanishing_temperature_is_greedy) {
  Sampler sampler(1000);
  const auto logits = naive::row(1000, 2);
  Options options;
  const int greedy = sampler.sample(logits, {.position = 0}, options).token;
  for (const float temperature : {1e-38f, 1e-9f, 1e-4f}) {
    options.temperature = temperature;
    EXPECT_EQ(sampler.sample(logits, {.position = 0}, options).token, greedy);
  }
}

TEST(Sampler, huge_and_tiny_logits_are_no_trouble) {
  Sampler sampler(100);
  std::vector<float> logits(100, -3e38f);
  logits[17] = 3e38f;
  Options options;
  for (unsigned bits = 0; bits < 16; ++bits) {
    options = combination(bits, 100);
    options.top_logprobs = 3;
    const Sampled sampled = sampler.sample(logits, {.position = 0}, options);
    EXPECT_EQ(sampled.token, 17);
    EXPECT_EQ(sampled.logprob, 0.0f);
    EXPECT_EQ(sampled.top.size(), 3u);
  }
}

TEST(Sampler, impossible_tokens_are_never_drawn) {
  Sampler sampler(300);
  std::vector<float> logits(300, -kInfinity);
  logits[4] = 1;
  logits[299] = 0.5f;
  Options options;
  options.temperature = 5;
  for (int position = 0; position < 100; ++position) {
    const int token = sampler.sample(logits, {.position = position}, options).token;
    EXPECT_TRUE(token == 4 || token == 299);
  }
  options.suppressed = {4};
  EXPECT_EQ(sampler.sample(logits, {.position = 0}, options).token, 299);
}

TEST(Sampler, a_row_with_nan_or_no_possible_token_is_an_error_that_says_so) {
  Sampler sampler(130);
  const auto message = [&](const std::vector<float>& logits, const Options& options) -> std::string {
    try {
      sampler.sample(logits, {.position = 12}, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
      return error.what();
    }
    return "no error";
  };
  for (const float bad : {std::nanf(""), -std::nanf(""), kInfinity}) {
    for (const int at : {0, 63, 64, 129}) {
      std::vector<float> logits(130, 0.5f);
      logits[static_cast<size_t>(at)] = bad;
      EXPECT_NE(message(logits, {}).find("position 12 holds NaN"), std::string::npos);
      Options options;
      options.suppressed = {at};
      options.top_logprobs = 1;
      EXPECT_NE(message(logits, options).find("holds NaN"), std::string::npos);
    }
  }
  EXPECT_NE(message(std::vector<float>(130, -kInfinity), {}).find("no token is possible"), std::string::npos);
  Options options;
  for (int id = 0; id < 130; ++id) options.suppressed.push_back(id);
  EXPECT_NE(message(std::vector<float>(130, 1.0f), options).find("suppressed"), std::string::npos);
}

TEST(Sampler, penalties_pass_over_what_stands_for_pictures) {
  Sampler sampler(4);
  const std::vector<float> logits = {1.0f, 1.9f, 1.5f, 1.2f};
  const std::vector<int> history = {1, 1, 1, 2};
  Options options{.repetition_penalty = 2.0f, .frequency_penalty = 0.5f};
  const Context context{.history = history, .prompt_tokens = 1, .position = 4};
  EXPECT_EQ(sampler.sample(logits, context, options).token, 3);
  options.placeholders = {1};
  EXPECT_EQ(sampler.sample(logits, context, options).token, 1);
}

TEST(Sampler, penalties_see_only_their_window) {
  Sampler sampler(4);
  const std::vector<float> logits = {1.0f, 0.9f, 0.0f, 0.0f};
  const std::vector<int> history = {0, 2, 2, 3};
  const Context context{.history = history, .position = 4};
  Options options;
  options.presence_penalty = 0.5f;
  EXPECT_EQ(sampler.sample(logits, context, options).token, 1);
  options.penalty_window = 3;
  EXPECT_EQ(sampler.sample(logits, context, options).token, 0);
  options.penalty_window = 4;
  EXPECT_EQ(sampler.sample(logits, context, options).token, 1);
  options.penalty_window = 0;
  EXPECT_EQ(sampler.sample(logits, context, options).token, 0);
}

TEST(Sampler, presence_and_frequency_look_at_the_output_and_repetition_at_the_prompt_too) {
  Sampler sampler(3);
  const std::vector<float> logits = {1.0f, 0.9f, 0.0f};
  const std::vector<int> history = {0, 0, 2};  // token 0 is the likeliest
  const auto token = [&](size_t prompt_tokens, const Options& options) {
    return sampler
        .sample(logits, {.history = history, .prompt_tokens = prompt_tokens, .position = 3}, options)
        .token;
  };
  const Options presence{.presence_penalty = 0.5f}, frequency{.frequency_penalty = 0.06f},
      repetition{.repetition_penalty = 1.2f};
  EXPECT_EQ(token(3, presence), 0);
  EXPECT_EQ(token(2, presence), 0);
  EXPECT_EQ(token(1, presence), 1);
  EXPECT_EQ(token(2, frequency), 0);
  EXPECT_EQ(token(1, frequency), 0) << "one occurrence costs 0.06";
  EXPECT_EQ(token(0, frequency), 1) << "two cost 0.12";
  for (size_t prompt = 0; prompt <= 3; ++prompt) EXPECT_EQ(token(prompt, repetition), 1);
}

TEST(Sampler, a_masked_token_is_never_picked_whatever_else_is_asked_for) {
  const int vocab = 200;
  Sampler sampler(vocab);
  TokenMask mask(vocab);
  for (const int id : {3, 64, 127, 128, 199}) mask.allow(id);
  EXPECT_EQ(mask.forbidden(), vocab - 5);
  const auto history = history_of(vocab, 1, 30);
  for (unsigned bits = 0; bits < 128; ++bits) {
    Options options = combination(bits, vocab);
    options.logit_bias = {{5, 1000.0f}};
    for (int position = 0; position < 10; ++position) {
      options.seed = bits;
      const Context context{.history = history, .prompt_tokens = 10, .position = position, .mask = &mask};
      const auto logits = naive::row(vocab, bits * 100 + static_cast<uint64_t>(position));
      ASSERT_TRUE(mask.allows(sampler.sample(logits, context, options).token)) << "options " << bits;
    }
  }
}

TEST(Sampler, a_mask_that_forbids_all_is_an_error_and_hides_no_damage) {
  Sampler sampler(70);
  const TokenMask nothing(70);
  std::vector<float> logits(70, 1.0f);
  const auto message = [&]() -> std::string {
    try {
      sampler.sample(logits, {.mask = &nothing}, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message().find("no token is possible"), std::string::npos);
  logits[66] = kInfinity;
  EXPECT_NE(message().find("holds NaN"), std::string::npos);
}

TEST(Sampler, a_mask_that_allows_all_changes_nothing) {
  const int vocab = 1000;
  Sampler sampler(vocab);
  TokenMask all(vocab);
  all.allow_all();
  EXPECT_EQ(all.forbidden(), 0);
  for (unsigned bits = 0; bits < 256; ++bits) {
    const Options options = combination(bits, vocab);
    const auto logits = naive::row(vocab, bits);
    EXPECT_EQ(sampler.sample(logits, {.position = 3, .mask = &all}, options).token,
              sampler.sample(logits, {.position = 3}, options).token);
  }
}

}  // namespace
}  // namespace slip::sample
