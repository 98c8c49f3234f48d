// What `generate` shows of a chat reply: thoughts, answer, tool calls, on a pipe and as JSON.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/scripted_model.h"

namespace slip::cli {
namespace {

using nlohmann::json;
using test::Result;
using test::TemporaryFolder;

class GenerateReply : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    test::write_scripted_model(folder_->path("thinks"), test::thoughtful_script());
    test::write_scripted_model(folder_->path("calls"), {"Wait", "<|tool_call>", "call:go{steps:3}",
                                                        "<tool_call|>", "<|tool_response>"});
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static Result generate(const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "-m", folder_->path(model), "-t", "1", "-p", "hi"});
    return test::run(more);
  }
  inline static TemporaryFolder* folder_ = nullptr;
};

TEST_F(GenerateReply, a_pipe_gets_the_answer_and_stderr_says_what_is_hidden) {
  const Result result = generate("thinks", {});
  EXPECT_EQ(result.out, "The answer\n");
  EXPECT_NE(result.err.find("10 B of thoughts are not shown"), std::string::npos) << result.err;
}

TEST_F(GenerateReply, thoughts_come_first_when_they_are_wanted) {
  EXPECT_EQ(generate("thinks", {"--show-thinking", "on"}).out, "deep water\nThe answer\n");
  EXPECT_EQ(generate("thinks", {"--show-thinking", "off"}).out, "The answer\n");
  const json out = json::parse(generate("thinks", {"--json", "-q"}).out);
  EXPECT_EQ(out["text"], "The answer");
  EXPECT_EQ(out["reasoning"], "deep water");
  EXPECT_FALSE(out.contains("tool_calls"));
}

TEST_F(GenerateReply, a_tool_call_is_readable) {
  EXPECT_EQ(generate("calls", {}).out, "Wait\n[calls go {\"steps\":3}]\n");
  const json out = json::parse(generate("calls", {"--json", "-q"}).out);
  EXPECT_EQ(out["text"], "Wait");
  EXPECT_EQ(out["tool_calls"][0]["name"], "go");
  EXPECT_EQ(out["tool_calls"][0]["arguments"]["steps"], 3);
}

TEST_F(GenerateReply, thinking_adds_a_system_turn) {
  const auto tokens = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--json", "-q"});
    return json::parse(generate("thinks", more).out)["statistics"]["prompt_tokens"].get<int>();
  };
  EXPECT_GT(tokens({"--think", "on"}), tokens({"--think", "off"}) + 6);
  EXPECT_EQ(tokens({"--think", "off"}), tokens({}));
}

TEST_F(GenerateReply, the_shipped_template_makes_the_prompt) {
  const auto tokens = [] {
    return json::parse(generate("calls", {"--json", "-q", "-n", "1"}).out)["statistics"]["prompt_tokens"]
        .get<int>();
  };
  test::write_file(folder_->path("calls/chat_template.jinja"),
                   "{{ '<|turn>model\\n<|channel>thought\\n<channel|>' }}");
  EXPECT_EQ(tokens(), 17);  // <|turn> m o d e l \n <|channel> t h o u g h t \n <channel|>
  std::filesystem::remove(folder_->path("calls/chat_template.jinja"));
}

TEST_F(GenerateReply, a_tokenizer_without_turns_continues_the_text_and_says_so) {
  const std::string model = folder_->path("thinks"), bare = folder_->path("bare");
  std::filesystem::copy(model, bare);
  std::string tokenizer = test::read_file(bare + "/tokenizer.json");
  for (size_t at; (at = tokenizer.find("<|turn>")) != std::string::npos;) tokenizer.replace(at, 7, "<|turm>");
  test::write_file(bare + "/tokenizer.json", tokenizer);
  const Result result = generate("bare", {"-n", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("has no chat turns"), std::string::npos) << result.err;
  EXPECT_EQ(generate("bare", {"--system", "x"}).code, 1);
}

}  // namespace
}  // namespace slip::cli
