// The program as a person meets it: help, typos, exit codes, and that stdout carries nothing but the answer.
#include "support/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/commands/command.h"

namespace slip::cli {
namespace {

using test::Result;
using test::run;
using test::TemporaryFolder;
using test::write_file;

const std::string kTokenizer = std::string(SLIP_TEST_DATA) + "/golden/tokenizer/tokenizer.json";

/// A failure is one line on stderr that begins with our name, and nothing on stdout.
void expect_failure(const Result& result, int code, const std::string& words) {
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("slipstream: ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
}

TEST(Program, shows_what_it_can_do_when_told_nothing) {
  const Result result = run({});
  EXPECT_EQ(result.code, 0);
  for (const Command& command : commands()) {
    EXPECT_NE(result.out.find(command.name), std::string::npos) << command.name;
  }
  EXPECT_EQ(run({"--help"}).out, result.out);
  EXPECT_EQ(run({"help"}).out, result.out);
}

TEST(Program, has_a_help_that_fits_a_screen_for_every_command) {
  std::vector<std::vector<std::string>> calls = {{}};
  for (const Command& command : commands()) calls.push_back({std::string(command.name), "--help"});
  for (const auto& call : calls) {
    const Result result = run(call);
    EXPECT_EQ(result.code, 0);
    std::istringstream lines(result.out);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 100u) << line;
    EXPECT_GE(count, 4) << result.out;
    EXPECT_LE(count, 58) << result.out;
    if (!call.empty()) {
      EXPECT_EQ(run({"help", call[0]}).out, result.out);
    }
  }
}

TEST(Program, guesses_mistyped_commands_and_flags) {
  expect_failure(run({"genrate"}), 1, "there is no command 'genrate'; did you mean 'generate'?");
  expect_failure(run({"banana"}), 1, "run 'slipstream' without arguments");
  expect_failure(run({"version", "--jsno"}), 1, "did you mean '--json'?");
  expect_failure(run({"generate", "--tmep", "1"}), 1, "did you mean '--temp'?");
}

TEST(Program, prints_version_build_and_processor) {
  const auto json = nlohmann::json::parse(run({"version", "--json"}).out);
  EXPECT_FALSE(json["version"].get<std::string>().empty());
  EXPECT_FALSE(json["simd"].get<std::string>().empty());
  EXPECT_GT(json["memory_bytes"].get<size_t>(), 0u);
  EXPECT_EQ(run({"--version"}).out, "slipstream " + json["version"].get<std::string>() + "\n");
  EXPECT_NE(run({"version"}).out.find("features"), std::string::npos);
}

TEST(Program, reports_a_full_disk_instead_of_losing_output) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const std::string command = std::string("'") + SLIP_PROGRAM + "' version >/dev/full 2>/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 4);
}

TEST(Program, ends_quietly_when_its_reader_goes_away) {
  const TemporaryFolder folder;
  const std::string command = std::string("yes | head -c 3000000 | '") + SLIP_PROGRAM + "' tokenize -m '" +
                              kTokenizer + "' 2>'" + folder.path("err.txt") + "' | head -1 >/dev/null";
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 0);
  EXPECT_EQ(test::read_file(folder.path("err.txt")), "");
}

TEST(Tokenize, goes_there_and_back) {
  const std::string text = "Grüße, <turn|> and \xf0\x9f\x8e\x89!";
  const Result ids = run({"tokenize", "-m", kTokenizer, "--ids", text});
  ASSERT_EQ(ids.code, 0) << ids.err;
  EXPECT_EQ(run({"tokenize", "-m", kTokenizer, "--decode"}, ids.out).out, text + "\n");
}

TEST(Tokenize, reads_words_files_and_pipes_alike) {
  const TemporaryFolder folder;
  write_file(folder.path("text.txt"), "two words\n");
  const std::string expected = run({"tokenize", "-m", kTokenizer, "two", "words"}).out;
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(run({"tokenize", "-m", kTokenizer, "-f", folder.path("text.txt")}).out, expected);
  EXPECT_EQ(run({"tokenize", "-m", kTokenizer}, "two words").out, expected);
  EXPECT_EQ(run({"tokenize", "-m", kTokenizer, "-f", "-"}, "two words\n").out, expected);
}

TEST(Tokenize, counts_and_prints_json) {
  const auto json =
      nlohmann::json::parse(run({"tokenize", "-m", kTokenizer, "--json", "--bos", "hello"}).out);
  EXPECT_EQ(json["count"].get<size_t>(), json["ids"].size());
  EXPECT_EQ(json["pieces"][0], "<bos>");
  const std::string count = run({"tokenize", "-m", kTokenizer, "--count", "--bos", "hello"}).out;
  EXPECT_EQ(count, std::to_string(json["ids"].size()) + "\n");
}

TEST(Tokenize, takes_specials_as_text_when_told_to) {
  EXPECT_EQ(run({"tokenize", "-m", kTokenizer, "--count", "<bos>"}).out, "1\n");
  EXPECT_NE(run({"tokenize", "-m", kTokenizer, "--count", "--no-specials", "<bos>"}).out, "1\n");
}

TEST(Tokenize, refuses_bad_input_with_a_sentence) {
  expect_failure(run({"tokenize", "-m", "/nowhere", "hello"}), 2, "/nowhere");
  expect_failure(run({"tokenize", "-m", kTokenizer, "-f", "/nowhere/text"}), 2, "/nowhere/text");
  expect_failure(run({"tokenize", "-m", kTokenizer, "-f", "a", "b"}), 1, "given twice");
  expect_failure(run({"tokenize", "-m", kTokenizer, "--decode", "12", "-f", "x"}), 1, "given twice");
  expect_failure(run({"tokenize", "-m", kTokenizer, "--decode", "12 99999999"}), 1, "99999999");
  expect_failure(run({"tokenize", "-m", kTokenizer, "--decode", "twelve"}), 1, "twelve");
  const TemporaryFolder folder;
  write_file(folder.path("tokenizer.json"), "{\"model\": ");
  expect_failure(run({"tokenize", "-m", folder.path(), "x"}), 2, "tokenizer.json");
}

class Tiny : public ::testing::TestWithParam<std::string> {};

TEST_P(Tiny, is_written_and_inspected) {
  const TemporaryFolder folder;
  const std::string model = folder.path("a model with spaces");
  const Result made = run({"synth", "--shape", GetParam(), "--bits", "4", model});
  ASSERT_EQ(made.code, 0) << made.err;
  const Result text = run({"inspect", model});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("memory present"), std::string::npos) << text.out;
  const auto json = nlohmann::json::parse(run({"inspect", model, "--json"}).out);
  EXPECT_GT(json["parameters"].get<int64_t>(), 0);
  EXPECT_GE(json["parameters"].get<int64_t>(), json["active_parameters"].get<int64_t>());
  EXPECT_GE(json["packed_bytes"].get<int64_t>(), json["streamed_bytes"].get<int64_t>());
  int64_t bytes = 0;
  for (const auto& context : json["contexts"]) {
    EXPECT_GE(context["kv_bytes"].get<int64_t>(), bytes);
    bytes = context["kv_bytes"].get<int64_t>();
    EXPECT_GT(context["memory_needed_bytes"].get<int64_t>(), bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Tiny,
                         ::testing::Values("tiny-e2b", "tiny-dense", "tiny-moe", "tiny-unified"),
                         [](const auto& shape) { return shape.param.substr(5); });

TEST(Synth, gives_the_same_bytes_for_the_same_options) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& seed) {
    EXPECT_EQ(run({"synth", "--shape", "tiny-e2b", "--seed", seed, folder.path(name)}).code, 0);
    return test::read_file(folder.path(name) + "/model.safetensors");
  };
  const std::string first = write("a", "1");
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(write("b", "1"), first);
  EXPECT_NE(write("c", "2"), first);
}

TEST(Synth, splits_into_shards_that_inspect_reads) {
  const TemporaryFolder folder;
  ASSERT_EQ(
      run({"synth", "--shape", "tiny-moe", "--bits", "16", "--shard-size", "200KB", folder.path("m")}).code,
      0);
  EXPECT_TRUE(std::filesystem::exists(folder.path("m/model.safetensors.index.json")));
  EXPECT_EQ(run({"inspect", folder.path("m")}).code, 0);
}

TEST(Synth, replaces_a_checkpoint_only_when_forced) {
  const TemporaryFolder folder;
  const std::vector<std::string> call = {"synth", "--shape", "tiny-e2b", folder.path("m")};
  EXPECT_EQ(run(call).code, 0);
  expect_failure(run(call), 1, "m");
  EXPECT_EQ(run({"synth", "--shape", "tiny-dense", "--force", folder.path("m")}).code, 0);
}

TEST(Synth, refuses_wrong_options_with_a_sentence) {
  expect_failure(run({"synth", "out"}), 1, "--shape");
  expect_failure(run({"synth", "--shape", "e2b"}), 1, "OUT is missing");
  expect_failure(run({"synth", "--shape", "e2bb", "out"}), 1, "did you mean 'e2b'?");
  expect_failure(run({"synth", "--shape", "tiny-e2b", "--bits", "7", "out"}), 1, "7");
  expect_failure(run({"synth", "--shape", "tiny-e2b", "--bits", "99", "out"}), 1,
                 "--bits must be a whole number");
  expect_failure(run({"synth", "--shape", "tiny-e2b", "--shard-size", "big", "out"}), 1, "--shard-size");
}

TEST(Inspect, refuses_bad_models_with_a_sentence) {
  const TemporaryFolder folder;
  expect_failure(run({"inspect", folder.path("nothing")}), 2, "nothing");
  expect_failure(run({"inspect", folder.path()}), 2, "config.json");
  write_file(folder.path("config.json"), "[1, 2");
  expect_failure(run({"inspect", folder.path()}), 2, "config.json");
}

TEST(Inspect, refuses_a_truncated_weight_file) {
  const TemporaryFolder folder;
  ASSERT_EQ(run({"synth", "--shape", "tiny-e2b", folder.path("m")}).code, 0);
  std::filesystem::resize_file(folder.path("m/model.safetensors"), 5000);
  expect_failure(run({"inspect", folder.path("m")}), 2, "model.safetensors");
}

}  // namespace
}  // namespace slip::cli
