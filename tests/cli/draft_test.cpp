// Speculation from outside: the text does not change, what is used is said, what does not fit is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/terminal/draft_colours.h"
#include "support/program.h"

namespace slip::cli {
namespace {

using nlohmann::json;
using test::Result;
using test::run;
using test::TemporaryFolder;

/// Two synthetic pairs on disk, the assistants where they are looked for.
class Drafting : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    for (const char* shape : {"tiny-e2b", "tiny-dense"}) {
      ASSERT_EQ(
          run({"synth", "--shape", shape, "--acceptance", "0.7", "--assistant", folder_->path(shape)}).code,
          0);
    }
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string model(const std::string& shape = "tiny-e2b") { return folder_->path(shape); }
  static Result generate(std::vector<std::string> more, const std::string& shape = "tiny-e2b") {
    std::vector<std::string> args{"generate", "-m", model(shape), "-t", "1",
                                  "--ids",    "-p", "7 300 41",   "-n", "60"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }
  static void expect_refused(const Result& result, int code, const std::string& words) {
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
  static TemporaryFolder* folder_;
};
TemporaryFolder* Drafting::folder_ = nullptr;

TEST_F(Drafting, changes_no_byte_of_the_answer) {
  for (const std::vector<std::string>& sampling :
       {std::vector<std::string>{"--temp", "0"},
        std::vector<std::string>{"--temp", "1", "--seed", "5", "--top-k", "64"},
        std::vector<std::string>{"--temp", "1.5", "--seed", "6", "--repeat-penalty", "1.2"}}) {
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.end(), sampling.begin(), sampling.end());
      const Result result = generate(more);
      EXPECT_EQ(result.code, 0) << result.err;
      return result.out;
    };
    const std::string plain = with({"--draft-kind", "none"});
    EXPECT_EQ(with({}), plain);
    EXPECT_EQ(with({"--draft-kind", "mtp", "--draft-depth", "5"}), plain);
    EXPECT_EQ(
        with({"--draft-kind", "mtp", "--draft-depth", "3", "--draft-position", "p", "--draft-bits", "4"}),
        plain);
    EXPECT_EQ(with({"--draft-kind", "suffix", "--draft-depth", "4"}), plain);
  }
}

TEST_F(Drafting, says_which_assistant_was_found_and_what_it_brought) {
  const Result result = generate({"--temp", "0", "--draft-depth", "3"});
  EXPECT_NE(result.err.find("\ndrafting: mtp (" + model() + "-assistant, found for the model, "),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("quantised to 4 bits while loading"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("tokens per pass"), std::string::npos) << result.err;
  const json out = json::parse(generate({"--temp", "0", "--draft-depth", "3", "--json", "-q"}).out);
  const json& all = out["statistics"]["speculation"];
  EXPECT_GT(all["accepted"].get<int>(), 10);
  EXPECT_LT(all["passes"].get<int>(), 50);
  EXPECT_EQ(all["drafted_at"].size(), 3u);
  EXPECT_EQ(all["drafters"][0]["name"], "mtp");
}

TEST_F(Drafting, takes_a_named_drafter_and_refuses_one_that_does_not_fit) {
  const Result named =
      generate({"--temp", "0", "--draft-model", model() + "-assistant", "--draft-kind", "mtp"});
  EXPECT_EQ(named.code, 0) << named.err;
  expect_refused(generate({"--draft-model", model("tiny-dense") + "-assistant"}), 2,
                 "belongs to another model");
  expect_refused(generate({"--draft-model", model("tiny-dense")}), 2, "is a whole Gemma 4 model");
  expect_refused(generate({"--draft-model", model("nothing")}), 2, "no such folder");
  expect_refused(generate({"--draft-model", model() + "-assistant", "--draft-kind", "dflash"}), 1,
                 "is an assistant");
  expect_refused(generate({"--draft-kind", "dflash"}), 1, "needs --draft-model");
  expect_refused(generate({"--draft-kind", "none", "--draft-model", model() + "-assistant"}), 1,
                 "needs no model");
  expect_refused(generate({"--draft-depth", "16"}), 1, "from 0 to 15");
  expect_refused(generate({"--draft-kind", "mpt"}), 1, "did you mean 'mtp'");
  std::filesystem::rename(model() + "-assistant", model() + "-away");
  expect_refused(generate({"--draft-kind", "mtp"}), 1, "needs an assistant");
  std::filesystem::rename(model() + "-away", model() + "-assistant");
}

TEST_F(Drafting, a_damaged_assistant_is_an_error_and_not_a_silent_fallback) {
  const std::string weights = model("tiny-dense") + "-assistant/model.safetensors";
  std::filesystem::resize_file(weights, std::filesystem::file_size(weights) / 2);
  const Result result = generate({"--temp", "0"}, "tiny-dense");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("model.safetensors"), std::string::npos) << result.err;
}

TEST(DraftColours, taking_the_codes_out_gives_the_text_back) {
  const std::vector<int> wrong{3, 4};
  engine::Delta own{.token = 1, .rejected = wrong}, guessed{.token = 2, .drafter = "suffix"};
  EXPECT_EQ(painted(own, "own", {}), "own");
  EXPECT_EQ(painted(guessed, "seen", {}), "\x1b[33mseen\x1b[0m");
  EXPECT_EQ(painted(own, "own", [](int token) { return std::to_string(token); }), "\x1b[2;9;31m34\x1b[0mown");
  EXPECT_EQ(painted(guessed, "", {}), "");
}

}  // namespace
}  // namespace slip::cli
