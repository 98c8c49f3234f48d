// `chat`: its commands, its memory, and the program on a real (pseudo) terminal and on a pipe.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/commands/chat_command.h"
#include "cli/commands/chat_session.h"
#include "support/pty.h"
#include "support/scripted_model.h"

namespace slip::cli {
namespace {

using test::PtyProgram;
using test::Result;
using test::TemporaryFolder;
using Kind = ChatInput::Kind;

TEST(ChatInput, tells_messages_and_commands_apart) {
  EXPECT_EQ(read_input("  ").kind, Kind::kNothing);
  EXPECT_EQ(read_input(" hello / there ").text, "hello / there");
  EXPECT_EQ(read_input("//etc is a folder").kind, Kind::kMessage);
  EXPECT_EQ(read_input("//etc is a folder").text, "/etc is a folder");
  EXPECT_EQ(read_input("/system be brief ").kind, Kind::kSystem);
  EXPECT_EQ(read_input("/system be brief ").text, "be brief");
  EXPECT_EQ(read_input("/think on").text, "on");
  EXPECT_EQ(read_input("/quit").kind, Kind::kExit);
}

TEST(ChatInput, guesses_what_was_meant) {
  const auto message = [](const char* line) -> std::string {
    try {
      read_input(line);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("/rset"), "there is no command '/rset'; did you mean '/reset'?");
  EXPECT_NE(message("/banana").find("/help"), std::string::npos);
  EXPECT_NE(message("/reset now").find("takes nothing behind it"), std::string::npos);
}

std::string text_of(const text::Conversation& conversation) {
  std::string text;
  for (const text::Turn& turn : conversation.turns)
    text += fmt::format("{}: {}\n", static_cast<int>(turn.role), turn.text);
  return text;
}

session::Reply replied(const std::string& text, const std::string& reasoning) {
  session::Reply reply;
  reply.text = text;
  reply.reasoning = reasoning;
  return reply;
}

TEST(ChatSession, remembers_answers_and_forgets_thoughts) {
  ChatSession session;
  EXPECT_TRUE(session.add("one", replied("The answer", "deep water")));
  EXPECT_EQ(session.messages(), 2);
  EXPECT_EQ(text_of(session.with("two")), "2: one\n3: The answer\n2: two\n");
  session.system = "brief";
  session.reset();
  EXPECT_EQ(text_of(session.with("two")), "0: brief\n2: two\n");
}

TEST(ChatSession, takes_a_message_back_that_got_no_answer) {
  ChatSession session;
  EXPECT_FALSE(session.add("one", replied("", "a thought")));
  EXPECT_EQ(session.messages(), 0);
}

class Chat : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    test::write_scripted_model(model(), test::thoughtful_script());
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string model() { return folder_->path("model"); }
  static std::vector<std::string> args(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"chat", "-m", model(), "-t", "1"});
    return more;
  }
  /// A reply that is cut short only by the test or a limit: one token is made likelier than everything else.
  static std::vector<std::string> endless(std::vector<std::string> more = {}) {
    const int token = test::ScriptedVocabulary(test::thoughtful_script()).id(test::long_piece());
    more.insert(more.end(), {"-n", "4000", "--temp", "0", "--logit-bias", std::to_string(token) + "=1000"});
    return args(more);
  }
  inline static TemporaryFolder* folder_ = nullptr;
};

TEST_F(Chat, answers_every_line_of_a_pipe) {
  const Result result = test::run(args(), "hello\n\n/think\n/stats\nagain\n");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "The answer\nThe answer\n");
  EXPECT_NE(result.err.find("thinking is off"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("conversation: 2 messages"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(" tok/s | context "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(" of 4096 | "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("tokens per pass"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("10 B of thoughts not shown"), std::string::npos) << result.err;
}

TEST_F(Chat, obeys_its_commands) {
  const Result result = test::run(
      args({"--system", "old"}),
      "/system\n/system new words\n/system\n/system off\n/think on\n/think maybe\n/image cat.png\n/rest\nhi\n"
      "/reset\n/stats\n/help\n/exit\nnever\n");
  for (const char* words :
       {"instructions: old\n", "instructions: new words\n", "the instructions are removed\n",
        "thinking is on\n", "/think is followed by on or off, not 'maybe'\n", "reads text alone",
        "did you mean '/reset'", "starts anew", "conversation: 0 messages", "Alt-Enter"}) {
    EXPECT_NE(result.err.find(words), std::string::npos) << words << "\n" << result.err;
  }
  EXPECT_EQ(result.out, "The answer\n");
  EXPECT_EQ(result.code, 1);  // something was refused
}

TEST_F(Chat, a_quiet_one_prints_replies_only) {
  const Result result = test::run(args({"-q", "--show-thinking", "on"}), "hello\n");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "deep water\nThe answer\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(Chat, a_full_context_is_explained_and_loses_nothing) {
  const Result result = test::run(args({"-c", "40"}), "hello\nhello\n/stats\n/reset\nhello\n");
  EXPECT_EQ(result.out, "The answer\nThe answer\n");
  EXPECT_NE(result.err.find("the context is full"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("/reset starts a new one"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("conversation: 2 messages"), std::string::npos) << result.err;
  const Result cut = test::run(endless({"-c", "40"}), "hello\n");
  EXPECT_NE(cut.err.find("the context of 40 tokens is full"), std::string::npos) << cut.err;
  EXPECT_EQ(cut.out.substr(0, 4), "gggg");
  const Result silent = test::run(args({"-n", "4"}), "hello\n");  // ends within the thought
  EXPECT_NE(silent.err.find("cut at 4 tokens"), std::string::npos) << silent.err;
  EXPECT_NE(silent.err.find("the message is taken back"), std::string::npos) << silent.err;
}

TEST_F(Chat, refuses_a_model_without_turns) {
  const std::string bare = folder_->path("bare");
  std::filesystem::copy(model(), bare);
  std::string tokenizer = test::read_file(bare + "/tokenizer.json");
  for (size_t at; (at = tokenizer.find("<|turn>")) != std::string::npos;) tokenizer.replace(at, 7, "<|turm>");
  test::write_file(bare + "/tokenizer.json", tokenizer);
  const Result result = test::run({"chat", "-m", bare}, "hi\n");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("has no chat turns"), std::string::npos) << result.err;
}

TEST_F(Chat, edits_a_line_dims_thoughts_and_recalls_history) {
  PtyProgram chat(args());
  ASSERT_TRUE(chat.wait_for("> ")) << chat.output();
  chat.send("helo\x1b[Dl");
  ASSERT_TRUE(chat.wait_for("> hello")) << chat.output();
  chat.send("\r");
  ASSERT_TRUE(chat.wait_for("\x1b[2mdeep ")) << chat.output();
  ASSERT_TRUE(chat.wait_for("\nThe answer")) << chat.output();
  ASSERT_TRUE(chat.wait_for(" of 4096 |")) << chat.output();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.output();
  chat.send("\x1b[A");
  ASSERT_TRUE(chat.wait_for("> hello")) << chat.output();
  chat.send("\r");
  ASSERT_TRUE(chat.wait_for("The answer")) << chat.output();
  chat.send("/stats\r");
  ASSERT_TRUE(chat.wait_for("conversation: 4 messages")) << chat.output();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.output();
  EXPECT_FALSE(chat.is_as_before());
  chat.send("\x04");
  EXPECT_EQ(chat.finish(), 0);
  EXPECT_TRUE(chat.is_as_before());
}

TEST_F(Chat, control_c_stops_a_reply_and_not_the_program) {
  PtyProgram chat(endless());
  ASSERT_TRUE(chat.wait_for("> ")) << chat.output();
  chat.send("hi\r");
  ASSERT_TRUE(chat.wait_for("gggg")) << chat.output();
  chat.send("\x03");
  ASSERT_TRUE(chat.wait_for("stopped")) << chat.output();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.output();
  chat.send("/stats\r");
  ASSERT_TRUE(chat.wait_for("conversation: 2 messages")) << chat.output();  // what was said is kept
  ASSERT_TRUE(chat.wait_for("> ")) << chat.output();
  chat.send("half a line\x03");
  ASSERT_TRUE(chat.wait_for("> half a line")) << chat.output();
  chat.send("\x03");
  ASSERT_TRUE(chat.wait_for("Ctrl-C again leaves")) << chat.output();
  chat.send("\x03");
  EXPECT_EQ(chat.finish(), 0);
  EXPECT_TRUE(chat.is_as_before());
}

TEST_F(Chat, keys_pressed_during_a_reply_wait_for_the_next_line) {
  PtyProgram chat(endless());
  ASSERT_TRUE(chat.wait_for("> ")) << chat.output();
  chat.send("hi\r");
  ASSERT_TRUE(chat.wait_for("gggg")) << chat.output();
  chat.send("/help");
  chat.send("\x03");
  ASSERT_TRUE(chat.wait_for("stopped")) << chat.output();
  chat.send("\r");
  ASSERT_TRUE(chat.wait_for("> /help")) << chat.output();
  ASSERT_TRUE(chat.wait_for("Alt-Enter")) << chat.output();
}

TEST_F(Chat, a_paste_of_several_lines_is_one_message) {
  PtyProgram chat(args());
  ASSERT_TRUE(chat.wait_for("> ")) << chat.output();
  EXPECT_NE(chat.output().find("\x1b[?2004h"), std::string::npos);
  chat.send("\x1b[200~one\rtwo \u4f60\u597d\x1b[201~\r");
  ASSERT_TRUE(chat.wait_for("  two \u4f60\u597d")) << chat.output();
  ASSERT_TRUE(chat.wait_for("The answer")) << chat.output();
  chat.send("/stats\r");
  ASSERT_TRUE(chat.wait_for("conversation: 2 messages")) << chat.output();
}

TEST_F(Chat, gives_the_terminal_back_when_it_is_told_to_end) {
  PtyProgram chat(args());
  ASSERT_TRUE(chat.wait_for("> ")) << chat.output();
  EXPECT_FALSE(chat.is_as_before());
  chat.kill(SIGTERM);
  EXPECT_EQ(chat.finish(), 128 + SIGTERM);
  EXPECT_TRUE(chat.is_as_before());
}

TEST_F(Chat, generate_dims_thoughts_on_a_terminal) {
  PtyProgram generate({"generate", "-m", model(), "-t", "1", "-p", "hi"});
  EXPECT_EQ(generate.finish(), 0);
  EXPECT_NE(generate.output().find("\x1b[2mdeep "), std::string::npos) << generate.output();
  EXPECT_NE(generate.output().find("\nThe answer"), std::string::npos) << generate.output();
}

}  // namespace
}  // namespace slip::cli
