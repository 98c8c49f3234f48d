// `synth --assistant` and `--acceptance` from outside: two folders or none, and a model that counts.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/program.h"

namespace slip::cli {
namespace {

using test::read_file;
using test::Result;
using test::run;
using test::TemporaryFolder;
using test::write_file;

void expect_refusal(const std::vector<std::string>& args, const std::string& words) {
  const Result result = run(args);
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
}

TEST(SynthPair, writes_the_assistant_beside_a_target_that_counts) {
  const TemporaryFolder folder;
  for (const char* shape : {"tiny-e2b", "tiny-dense", "tiny-moe", "tiny-unified"}) {
    const std::string out = folder.path(shape);
    const Result made = run({"synth", "--shape", shape, "--acceptance", "0.8", "--assistant", out + "/"});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_TRUE(std::filesystem::exists(out + "-assistant/model.safetensors"));
    EXPECT_NE(read_file(out + "-assistant/config.json").find("assistant"), std::string::npos);
    const Result text =
        run({"generate", "-m", out, "-t", "1", "--ids", "-p", "7 300 41", "-n", "5", "--temp", "0", "-q"});
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_EQ(text.out.substr(0, text.out.find_last_not_of(" \n") + 1), "42 43 44 45 46") << shape;
  }
}

TEST(SynthPair, another_acceptance_changes_the_assistant_and_not_the_target) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& acceptance) {
    EXPECT_EQ(run({"synth", "--shape", "tiny-dense", "--acceptance", acceptance, "--assistant",
                   "--assistant-bits", "4", folder.path(name)})
                  .code,
              0);
  };
  write("a", "0.5");
  write("b", "0.9");
  write("c", "0.5");
  const auto weights = [&](const std::string& name) {
    return read_file(folder.path(name) + "/model.safetensors");
  };
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_NE(weights("a-assistant"), weights("b-assistant"));
  EXPECT_EQ(weights("a-assistant"), weights("c-assistant"));
}

TEST(SynthPair, writes_neither_when_one_of_the_folders_is_in_use) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("m-assistant"));
  write_file(folder.path("m-assistant/notes"), "mine");
  expect_refusal({"synth", "--shape", "tiny-e2b", "--assistant", folder.path("m")}, "m-assistant");
  EXPECT_FALSE(std::filesystem::exists(folder.path("m")));
  EXPECT_EQ(run({"synth", "--shape", "tiny-e2b", "--assistant", "--force", folder.path("m")}).code, 0);
  EXPECT_EQ(read_file(folder.path("m-assistant/notes")), "mine");
}

TEST(SynthPair, refuses_wrong_options_with_a_sentence) {
  expect_refusal({"synth", "--shape", "tiny-e2b", "--acceptance", "1.5", "out"}, "--acceptance");
  expect_refusal({"synth", "--shape", "tiny-e2b", "--acceptance", "most", "out"}, "--acceptance");
  expect_refusal({"synth", "--shape", "tiny-e2b", "--assistant-bits", "4", "out"}, "add --assistant");
  expect_refusal({"synth", "--shape", "tiny-e2b", "--assistant", "--assistant-bits", "5", "out"},
                 "4, 8 or 16");
}

}  // namespace
}  // namespace slip::cli
