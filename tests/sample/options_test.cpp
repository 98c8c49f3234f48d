#include "sample/options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/error.h"

namespace slip::sample {
namespace {

std::string refusal(const std::function<void(Options&)>& change) {
  Options options;
  change(options);
  try {
    validate(options, 100);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(Options, defaults_and_usual_settings_are_valid) {
  EXPECT_EQ(refusal([](Options&) {}), "");
  EXPECT_EQ(refusal([](Options& o) {
              o.temperature = 1;
              o.top_k = 64;
              o.top_p = 0.95f;
              o.min_p = 1;
              o.logit_bias = {{0, -100.0f}, {99, 100.0f}};
              o.suppressed = {5, 5, 3};
              o.top_logprobs = 20;
            }),
            "");
}

TEST(Options, what_is_out_of_range_is_refused_with_its_name) {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, infinity, -infinity, -0.5f, 1e6f}) {
    EXPECT_NE(refusal([&](Options& o) { o.temperature = bad; }).find("temperature"), std::string::npos);
    EXPECT_NE(refusal([&](Options& o) { o.top_p = bad; }).find("top_p"), std::string::npos);
    EXPECT_NE(refusal([&](Options& o) { o.min_p = bad; }).find("min_p"), std::string::npos);
    EXPECT_NE(refusal([&](Options& o) { o.repetition_penalty = bad; }).find("repetition_penalty"),
              std::string::npos);
  }
  for (const float bad : {nan, infinity, -infinity, -1e6f, 1e6f}) {
    EXPECT_NE(refusal([&](Options& o) { o.presence_penalty = bad; }).find("presence_penalty"),
              std::string::npos);
    EXPECT_NE(refusal([&](Options& o) { o.frequency_penalty = bad; }).find("frequency_penalty"),
              std::string::npos);
    EXPECT_NE(refusal([&](Options& o) { o.logit_bias = {{1, bad}}; }).find("logit_bias"), std::string::npos);
  }
  EXPECT_NE(refusal([](Options& o) { o.top_p = 0; }).find("top_p"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.repetition_penalty = 0; }).find("repetition_penalty"),
            std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.top_k = -1; }).find("top_k"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.penalty_window = -2; }).find("penalty_window"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.top_logprobs = 21; }).find("top_logprobs"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.top_logprobs = -2; }).find("top_logprobs"), std::string::npos);
}

TEST(Options, token_ids_outside_the_vocabulary_are_refused) {
  for (const int bad : {-1, 100, std::numeric_limits<int>::max()}) {
    EXPECT_NE(refusal([&](Options& o) {
                o.logit_bias = {{bad, 1.0f}};
              }).find("logit_bias names token"),
              std::string::npos);
    EXPECT_NE(refusal([&](Options& o) { o.suppressed = {bad}; }).find("suppressed"), std::string::npos);
  }
}

TEST(Options, a_bias_given_twice_or_out_of_order_is_refused) {
  EXPECT_NE(refusal([](Options& o) {
              o.logit_bias = {{4, 1.0f}, {4, 2.0f}};
            }).find("4 follows 4"),
            std::string::npos);
  EXPECT_NE(refusal([](Options& o) {
              o.logit_bias = {{4, 1.0f}, {3, 2.0f}};
            }).find("ascending"),
            std::string::npos);
}

}  // namespace
}  // namespace slip::sample
