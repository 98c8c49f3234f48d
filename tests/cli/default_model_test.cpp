// The demonstration model is used, and said to be used, when none is named.
#include <gtest/gtest.h>

#include "support/scripted_model.h"

namespace slip::cli {
namespace {

namespace fs = std::filesystem;
using test::Result;
using test::TemporaryFolder;

/// A copy of the program in a folder of its own, with the model in the box or without.
class Boxed : public testing::Test {
 protected:
  void SetUp() override { fs::copy_file(SLIP_PROGRAM, program()); }
  std::string program() const { return folder_.path("slipstream"); }
  Result run(std::vector<std::string> args) const { return test::run_program(program(), args, ""); }
  TemporaryFolder folder_;
};

TEST_F(Boxed, generate_uses_the_model_in_the_box_and_says_so_once) {
  test::write_scripted_model(folder_.path("models/tiny"), test::thoughtful_script());
  const Result result = run({"generate", "-t", "1", "-p", "hi"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "The answer\n");
  const std::string sentence = "no model named: using the demonstration model in models/tiny\n";
  EXPECT_TRUE(result.err.starts_with(sentence)) << result.err;
  EXPECT_EQ(result.err.find(sentence, 1), std::string::npos);
  EXPECT_NE(result.err.find("models/tiny-assistant, found for the model"), std::string::npos) << result.err;
  for (const char* part : {"tokens per pass", "guesses accepted", "mtp in "})
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  EXPECT_EQ(run({"generate", "-t", "1", "-q", "-p", "hi"}).err, "");
}

TEST_F(Boxed, without_a_model_in_the_box_one_sentence_says_what_to_do) {
  const Result result = run({"generate", "-p", "hi"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_NE(result.err.find("no model is named"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("-m MODEL"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace slip::cli
