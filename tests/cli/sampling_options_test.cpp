#include "cli/flags/sampling_options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace slip::cli {
namespace {

std::vector<sample::LogitBias> parse(const std::vector<std::string>& texts) {
  std::vector<sample::LogitBias> biases;
  for (const std::string& text : texts) add_logit_bias(text, biases);
  return biases;
}

TEST(LogitBias, the_last_word_on_an_id_counts) {
  const auto biases = parse({"7=1.5,3=-2", "7:4"});
  ASSERT_EQ(biases.size(), 2u);
  EXPECT_EQ(biases[0].id, 3);
  EXPECT_EQ(biases[0].value, -2);
  EXPECT_EQ(biases[1].id, 7);
  EXPECT_EQ(biases[1].value, 4);
}

TEST(LogitBias, refuses_what_is_no_bias) {
  for (const char* bad : {"", "7", "=1", "7=", "x=1", "7=nan", "-1=1", "7=1,", "7=1e9"}) {
    EXPECT_THROW(parse({bad}), Error) << bad;
  }
}

}  // namespace
}  // namespace slip::cli
