// generate --prompts: what is read, what is written, in which order, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "cli/commands/batch_prompts.h"
#include "support/scripted_model.h"
#include "synth/synthetic.h"

namespace slip::cli {
namespace {

using nlohmann::json;
using test::Result;
using test::TemporaryFolder;
using test::write_file;

class BatchPrompts : public testing::Test {
 protected:
  std::vector<BatchPrompt> parse(const std::string& text) const {
    return parse_prompts(text, "p.jsonl", model_);
  }
  void expect_refused(const std::string& text, const std::string& words) const {
    try {
      parse(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadFile) << text;
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
  int count(const BatchPrompt& prompt, const std::string& piece) const {
    return static_cast<int>(std::count(ids(prompt).begin(), ids(prompt).end(), vocabulary_.id(piece)));
  }
  test::ScriptedVocabulary vocabulary_{test::thoughtful_script()};
  static const std::vector<int>& ids(const BatchPrompt& prompt) { return prompt.prompt.segments().at(0).ids; }
  session::Model model_{synth::synthesize({.shape = "tiny-e2b"}),
                        text::Tokenizer::parse(vocabulary_.tokenizer_json(), "scripted")};
};

TEST_F(BatchPrompts, control_tokens_count_in_a_prompt_and_stay_text_in_messages) {
  const auto prompts = parse(
      "{\"prompt\": \"<|turn>hi\"}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"<|turn>hi\"}]}\n");
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(count(prompts[0], "<|turn>"), 1);
  EXPECT_EQ(ids(prompts[0]).size(), 4u);       // <bos> <|turn> h i
  EXPECT_EQ(count(prompts[1], "<|turn>"), 2);  // of the user's turn and the model's
}

TEST_F(BatchPrompts, takes_ids_lengths_tools_and_thinking) {
  const auto prompts = parse(
      "\n{\"prompt\": \"a\", \"task\": \"x\", \"max_tokens\": 7}\n"
      "{\"id\": \"z9\", \"messages\": [{\"role\": \"user\", \"content\": \"b\"}], \"think\": true,"
      " \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"go\"}}]}");
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].id, 2);  // the line's number
  EXPECT_EQ(prompts[0].max_tokens, 7);
  EXPECT_EQ(prompts[1].id, "z9");
  EXPECT_EQ(count(prompts[1], "<|think|>"), 1);
  EXPECT_EQ(count(prompts[1], "<|tool>"), 1);
}

TEST_F(BatchPrompts, names_the_line_that_is_wrong) {
  expect_refused("{\"prompt\": \"a\"}\n{\"prompt\": 3}", "p.jsonl line 2");
  expect_refused("nonsense", "p.jsonl line 1");
  expect_refused("[1]", "p.jsonl line 1");
  expect_refused("{\"mesages\": []}", "either \"prompt\" or \"messages\"");
  expect_refused("{\"prompt\": \"a\", \"messages\": []}", "either \"prompt\" or \"messages\"");
  expect_refused("{\"messages\": []}", "\"messages\" is empty");
  expect_refused("{\"messages\": [{\"role\": \"cat\", \"content\": \"b\"}]}", "no role \"cat\"");
  expect_refused("{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
                 "reads text alone");
  expect_refused("{\"messages\": [{\"role\": \"user\", \"content\": \"b\"}], \"think\": 1}", "true or false");
  expect_refused("{\"prompt\": \"a\", \"max_tokens\": 0}", "max_tokens");
  expect_refused("{\"prompt\": \"a\", \"id\": []}", "\"id\"");
  expect_refused("\n \n", "there is no prompt in it");
}

class Batch : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    test::write_scripted_model(folder_->path("model"), test::thoughtful_script());
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static Result generate(std::vector<std::string> more, const std::string& prompts) {
    write_file(folder_->path("p.jsonl"), prompts);
    std::vector<std::string> args = {"generate", "-m",        folder_->path("model"),  "-t",
                                     "1",        "--prompts", folder_->path("p.jsonl")};
    args.insert(args.end(), more.begin(), more.end());
    return test::run(args);
  }
  static std::vector<json> lines(const std::string& text) {
    std::vector<json> all;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
  }
  static std::string user(const std::string& text) {
    return json{{"messages", {{{"role", "user"}, {"content", text}}}}}.dump() + "\n";
  }
  inline static TemporaryFolder* folder_ = nullptr;
};

TEST_F(Batch, answers_every_line_in_order_with_control_tokens_and_acceptance) {
  std::string prompts = "{\"id\": \"first\", \"prompt\": \"abc\", \"max_tokens\": 20}\n";
  for (int i = 0; i < 9; ++i) prompts += user(std::string(static_cast<size_t>(1 + 5 * i), 'x'));
  const Result result = generate({"--parallel", "4", "--draft-depth", "3"}, prompts);
  ASSERT_EQ(result.code, 0) << result.err;
  const auto out = lines(result.out);
  ASSERT_EQ(out.size(), 10u);
  EXPECT_EQ(out[0]["id"], "first");
  EXPECT_EQ(out[0]["finish"], "max tokens");
  EXPECT_EQ(out[0]["tokens"].size(), 20u);
  for (size_t i = 1; i < out.size(); ++i) {
    EXPECT_EQ(out[i]["id"], i + 1);
    EXPECT_EQ(out[i]["text"], "<|channel>thought\ndeep water<channel|>The answer");
    EXPECT_EQ(out[i]["finish"], "stop id");
    EXPECT_EQ(out[i]["tokens"].size(), test::thoughtful_script().size());
    EXPECT_EQ(out[i]["drafted"].size(), out[i]["accepted"].size());
    EXPECT_GT(out[i]["rounds"].get<int>(), 0);
    EXPECT_GE(out[i]["tokens_per_pass"].get<double>(), 1);
  }
  EXPECT_NE(result.err.find("10 of 10 prompts"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("guesses accepted"), std::string::npos) << result.err;
}

TEST_F(Batch, gives_the_same_tokens_however_many_run_together) {
  std::string prompts;
  for (int i = 0; i < 6; ++i) prompts += user(std::string(static_cast<size_t>(1 + i), 'q'));
  const auto tokens = [&](const std::string& parallel, const std::string& kind) {
    const Result result = generate(
        {"--parallel", parallel, "--draft-kind", kind, "--temp", "100", "--seed", "4", "-n", "12"}, prompts);
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<json> all;
    for (const json& line : lines(result.out)) all.push_back(line["tokens"]);
    return all;
  };
  const auto alone = tokens("1", "none");
  EXPECT_EQ(tokens("6", "none"), alone);
  EXPECT_EQ(tokens("3", "auto"), alone);
}

TEST_F(Batch, a_line_can_be_repeated_alone_with_its_seed) {
  const std::vector<std::string> options = {"--temp", "100", "-n", "8", "--seed", "11"};
  const auto out = lines(generate(options, user("a") + user("a")).out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1]["seed"], 12);
  EXPECT_NE(out[0]["tokens"], out[1]["tokens"]);
  const Result alone = test::run({"generate", "-m", folder_->path("model"), "-t", "1", "-p", "a", "--temp",
                                  "100", "-n", "8", "--seed", "12", "--json", "-q"});
  EXPECT_EQ(json::parse(alone.out)["tokens"], out[1]["tokens"]);
}

TEST_F(Batch, writes_to_a_file_and_keeps_stdout_empty) {
  const Result result = generate({"-q", "--output", folder_->path("out.jsonl")}, user("a") + user("b"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(lines(test::read_file(folder_->path("out.jsonl"))).size(), 2u);
}

TEST_F(Batch, refuses_what_makes_no_sense_in_one_sentence) {
  const auto expect = [&](const Result& result, int code, const std::string& words) {
    EXPECT_EQ(result.code, code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  };
  expect(generate({"-p", "hi"}, user("a")), 1, "leave out -p and -f");
  expect(generate({"--raw"}, user("a")), 1, "leave out --raw");
  expect(generate({"--think", "on"}, user("a")), 1, "leave out --system and --think");
  expect(generate({"--parallel", "0"}, user("a")), 1, "--parallel");
  expect(generate({"--output", folder_->path("p.jsonl")}, user("a")), 1, "is the file of prompts");
  expect(generate({"--output", folder_->path("no/such/out")}, user("a")), 4, "cannot be written");
  expect(generate({"-c", "8"}, user("a") + user("b")), 1, "line 1: the prompt has");
  expect(generate({}, "{}"), 2, "p.jsonl line 1");
  expect(test::run({"generate", "-m", "x", "-p", "hi", "--parallel", "2"}), 1, "belong to --prompts");
  expect(test::run({"generate", "-m", folder_->path("model"), "--prompts", folder_->path("none")}), 2,
         "none");
}

}  // namespace
}  // namespace slip::cli
