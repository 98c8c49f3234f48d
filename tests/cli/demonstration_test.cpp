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

std::string shapes() {
  return std::string(SLIP_TEST_DATA) + "/../examples/shapes.png";
}

TEST_F(Demonstration, sees_a_picture_and_says_what_it_saw) {
  const json plain = generate({"--draft-kind", "none", "--image", shapes(), "-p", "What do you see?"});
  EXPECT_EQ(
      plain["text"],
      "The picture shows a red circle in the top left, a yellow star in the middle and a blue square in the "
      "bottom right.");
  ASSERT_EQ(plain["images"].size(), 1u);
  EXPECT_EQ(plain["images"][0]["width"], 384);
  EXPECT_EQ(plain["images"][0]["tokens"], 64);
  EXPECT_EQ(plain["images"][0]["shrunk"], false);
  for (const char* kind : {"mtp", "suffix"})
    EXPECT_EQ(generate({"--draft-kind", kind, "--image", shapes(), "-p", "What do you see?"})["tokens"],
              plain["tokens"]);
}

TEST_F(Demonstration, takes_pictures_where_the_text_says) {
  const json reply = generate({"--image", shapes(), "-p", "<|image|>What do you see in the middle?"});
  EXPECT_NE(reply["text"].get<std::string>().find("yellow star"), std::string::npos) << reply["text"];
  const Result many = test::run({"generate", "--image", shapes(), "-p", "<|image|> and <|image|>"});
  EXPECT_EQ(many.code, 1);
  EXPECT_NE(many.err.find("says <|image|> 2 times, but there is 1 picture"), std::string::npos) << many.err;
}

TEST_F(Demonstration, talks_about_a_picture) {
  const Result result = test::run(
      {"chat", "--temp", "0"}, "/image '" + shapes() + "'\nWhat do you see?\nHow many shapes are there?\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("384 x 384, seen as 384 x 384 in 64 tokens\nit goes with the next message\n"),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.out.find("a yellow star in the middle"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("three shapes"), std::string::npos) << result.out;
}

TEST_F(Demonstration, is_in_good_health) {
  const Result result = test::run({"doctor"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("the same with drafts and without"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("red"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("blue"), std::string::npos) << result.out;
}

TEST_F(Demonstration, names_a_picture_that_it_cannot_read) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path("page.png"), "<!DOCTYPE html><html></html>");
  test::write_file(folder.path("empty.jpg"), "");
  for (const auto& [file, words] : {std::pair<std::string, const char*>{folder.path("page.png"), "HTML"},
                                    {folder.path("empty.jpg"), "is empty"},
                                    {folder.path(), "is a folder"},
                                    {folder.path("none.png"), "cannot be opened"}}) {
    const Result result = test::run({"generate", "-p", "hi", "--image", file});
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_TRUE(result.err.starts_with("slipstream: " + file + ": ")) << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  }
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
