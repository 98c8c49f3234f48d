// The demonstration model itself, as a person meets it: no model named, sensible text, speculation at work.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/program.h"

namespace slip::cli {
namespace {

using nlohmann::json;
using test::Result;

class Demonstration : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(std::filesystem::exists(std::string(SLIP_TEST_DATA) + "/../models/tiny/config.json"))
        << "models/tiny belongs to the source tree";
  }
  static json generate(std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "-t", "1", "--json", "-q", "--temp", "0", "-n", "120", "-p",
                               "Tell me a story about a fox and a lantern."});
    const Result result = test::run(more);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }
};

TEST_F(Demonstration, tells_a_story_without_any_flag) {
  const Result result = test::run({"generate", "-p", "Tell me a story about a fox and a lantern."});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(result.err.starts_with("no model named: using the demonstration model in models/tiny\n"));
  EXPECT_NE(result.err.find("tiny-assistant, found for the model"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("tokens per pass"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("fox"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("<|"), std::string::npos) << result.out;
}

TEST_F(Demonstration, says_the_same_with_its_assistant_and_is_guessed_right) {
  const json plain = generate({"--draft-kind", "none"});
  const json drafted = generate({"--draft-kind", "mtp", "--draft-depth", "4"});
  EXPECT_EQ(drafted["tokens"], plain["tokens"]);
  EXPECT_GT(drafted["statistics"]["speculation"]["tokens_per_pass"].get<double>(), 1.5);
}

TEST_F(Demonstration, ends_its_replies) {
  EXPECT_EQ(generate({"-n", "2000"})["finish_reason"], "stop id");
}

TEST_F(Demonstration, adds_and_copies_names_into_json) {
  EXPECT_NE(generate({"-p", "What is 1234 + 4321?"})["text"].get<std::string>().find("5555"),
            std::string::npos);
  const json reply = generate(
      {"-p", "Write this as JSON: Greta is 60 years old, works as a weaver and lives in Pinehurst."});
  EXPECT_EQ(json::parse(reply["text"].get<std::string>()),
            json({{"name", "Greta"}, {"age", 60}, {"job", "weaver"}, {"town", "Pinehurst"}}));
}

TEST_F(Demonstration, keeps_its_skills_in_four_bits) {
  const std::string copy = std::string(SLIP_TEST_DATA) + "/../models/tiny-mlx-4bit";
  const json reply = generate({"-m", copy, "-p", "What is 1234 + 4321?"});
  EXPECT_NE(reply["text"].get<std::string>().find("5555"), std::string::npos) << reply;
}

TEST_F(Demonstration, remembers_in_chat) {
  const Result result =
      test::run({"chat", "-t", "1", "--temp", "0"}, "Tell me a story about a fox and a lantern.\n/stats\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("conversation: 2 messages"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace slip::cli
