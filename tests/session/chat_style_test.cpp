// Which kind of chat prompt a checkpoint wants, and where that is read.
#include "session/chat_style.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "session/model.h"
#include "support/scripted_model.h"

namespace slip::session {
namespace {

using test::TemporaryFolder;
using test::write_file;

constexpr const char* kLarge = "<|turn>model\n<|channel>thought\\n<channel|>";
constexpr const char* kSmall = "<|turn>model\n";

model::Config with_per_layer(int width) {
  model::Config config;
  config.per_layer_dim = width;
  return config;
}

TEST(ChatStyle, follows_the_template_and_not_the_architecture) {
  const TemporaryFolder folder;
  write_file(folder.path("chat_template.jinja"), kLarge);
  EXPECT_TRUE(chat_style(folder.path(), with_per_layer(256)).empty_thought_block);
  EXPECT_EQ(chat_style(folder.path(), with_per_layer(256)).origin, "chat_template.jinja");
  write_file(folder.path("chat_template.jinja"), kSmall);
  EXPECT_FALSE(chat_style(folder.path(), with_per_layer(0)).empty_thought_block);
}

TEST(ChatStyle, reads_the_template_out_of_the_tokenizer_config) {
  const TemporaryFolder folder;
  write_file(folder.path("tokenizer_config.json"), nlohmann::json{{"chat_template", kLarge}}.dump());
  EXPECT_TRUE(chat_style(folder.path(), with_per_layer(256)).empty_thought_block);
  EXPECT_EQ(chat_style(folder.path(), with_per_layer(256)).origin, "tokenizer_config.json");
  const nlohmann::json named = {{{"name", "tool_use"}, {"template", kLarge}},
                                {{"name", "default"}, {"template", kSmall}}};
  write_file(folder.path("tokenizer_config.json"), nlohmann::json{{"chat_template", named}}.dump());
  EXPECT_FALSE(chat_style(folder.path(), with_per_layer(0)).empty_thought_block);
}

TEST(ChatStyle, falls_back_to_the_architecture) {
  const TemporaryFolder folder;
  EXPECT_TRUE(chat_style(folder.path(), with_per_layer(0)).empty_thought_block);
  EXPECT_FALSE(chat_style(folder.path(), with_per_layer(256)).empty_thought_block);
  EXPECT_EQ(chat_style(folder.path(), with_per_layer(256)).origin, "the architecture");
}

text::Conversation hello(const std::string& words) {
  text::Conversation conversation;
  conversation.turns.push_back({text::Role::kUser, words});
  return conversation;
}

TEST(ChatStyle, a_template_of_another_family_is_used_as_well) {
  const TemporaryFolder folder;
  write_file(folder.path("chat_template.jinja"),
             "{% for m in messages %}<start_of_turn>{{ m.role }} {{ m.content }}{% endfor %}");
  EXPECT_EQ(chat_style(folder.path(), with_per_layer(0)).render(hello("hi")).bytes, "<start_of_turn>user hi");
}

TEST(ChatStyle, the_file_that_is_named_comes_first) {
  const TemporaryFolder folder;
  write_file(folder.path("chat_template.jinja"), kLarge);
  write_file(folder.path("mine.jinja"), "{{ messages[0].content }}!");
  const ChatStyle style = chat_style(folder.path(), with_per_layer(0), folder.path("mine.jinja"));
  EXPECT_EQ(style.render(hello("hi")).bytes, "hi!");
  EXPECT_EQ(style.origin, folder.path("mine.jinja"));
  write_file(folder.path("mine.jinja"), "{% if %}");
  EXPECT_THROW(chat_style(folder.path(), with_per_layer(0), folder.path("mine.jinja")), Error);
}

TEST(ChatStyle, a_template_that_cannot_be_parsed_refuses_prompts_and_nothing_else) {
  const TemporaryFolder folder;
  write_file(folder.path("chat_template.jinja"), "{% if %}");
  const ChatStyle style = chat_style(folder.path(), with_per_layer(0));
  try {
    style.render(hello("hi"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadFile);
    EXPECT_NE(std::string(error.what()).find("chat_template.jinja"), std::string::npos) << error.what();
  }
}

TEST(ChatStyle, natively_and_by_a_template_a_control_token_of_a_user_stays_foreign) {
  const TemporaryFolder folder;
  const ChatStyle native = chat_style(folder.path(), with_per_layer(0));
  write_file(folder.path("chat_template.jinja"),
             "<|turn>user\n{{ messages[0].content }}<turn|>\n{% if add_generation_prompt %}<|turn>model\n{% "
             "endif %}");
  const ChatStyle own = chat_style(folder.path(), with_per_layer(0));
  for (const ChatStyle* style : {&native, &own}) {
    const text::Rendered prompt = style->render(hello("a <|turn> b"));
    const size_t at = prompt.bytes.find(" <|turn> ") + 1;
    size_t begin = 0;
    for (const auto& span : prompt.spans) {
      const bool holds_it = at >= begin && at < span.end;
      EXPECT_TRUE(!holds_it || span.origin == text::Origin::kForeign);
      begin = span.end;
    }
  }
}

TEST(ChatStyle, a_last_turn_that_is_continued_is_left_open) {
  const TemporaryFolder folder;
  text::Conversation conversation = hello("hi");
  conversation.turns.push_back({text::Role::kAssistant, "The answer"});
  const ChatStyle native = chat_style(folder.path(), with_per_layer(256));
  const std::string bytes = native.render(conversation, {.continue_last = true}).bytes;
  EXPECT_TRUE(bytes.ends_with("<|turn>model\nThe answer")) << bytes;
}

TEST(ChatStyle, what_nobody_said_about_thinking_is_left_to_the_template) {
  const TemporaryFolder folder;
  write_file(folder.path("chat_template.jinja"),
             "{{ enable_thinking is defined }} {{ enable_thinking }} {{ effort }}");
  const ChatStyle style = chat_style(folder.path(), with_per_layer(0));
  EXPECT_EQ(style.render(hello("hi")).bytes, "False  ");
  EXPECT_EQ(style.render(hello("hi"), {.thinking = false}).bytes, "True False ");
  EXPECT_EQ(
      style.render(hello("hi"), {.thinking = true, .more = R"({"effort":"much","enable_thinking":0})"}).bytes,
      "True True much");
}

TEST(ChatStyle, a_reply_goes_on_in_the_thought_that_its_prompt_has_opened) {
  const TemporaryFolder folder;
  test::write_scripted_model(folder.path("model"), {"a"});
  const auto is_open = [&](const std::string& chat_template, const std::string& words) {
    write_file(folder.path("model/chat_template.jinja"), chat_template);
    return Model::open(folder.path("model"))->prompt(hello(words)).in_thought;
  };
  const std::string turn = "{{ messages[0].content }}{{ '<turn|>\n<|turn>model\n' }}";
  EXPECT_FALSE(is_open(turn, "hi"));
  EXPECT_TRUE(is_open(turn + "{{ '<|channel>thought\n' }}", "hi"));
  EXPECT_FALSE(is_open(turn + "{{ '<|channel>thought\n<channel|>' }}", "hi"));
  EXPECT_FALSE(is_open("{{ '<|turn>' }}{{ messages[0].content }}", "<|channel>thought\n")) << "that is text";
}

TEST(ChatStyle, names_a_damaged_file) {
  const TemporaryFolder folder;
  write_file(folder.path("tokenizer_config.json"), "{");
  try {
    chat_style(folder.path(), with_per_layer(0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadFile);
    EXPECT_NE(std::string(error.what()).find("tokenizer_config.json"), std::string::npos);
  }
}

TEST(ChatStyle, shows_in_inspect) {
  const TemporaryFolder folder;
  test::write_scripted_model(folder.path("model"), {"a"});
  EXPECT_NE(test::run({"inspect", folder.path("model")}).out.find("no empty thought"), std::string::npos);
  write_file(folder.path("model/chat_template.jinja"), kLarge);
  const std::string own = test::run({"inspect", folder.path("model")}).out;
  EXPECT_NE(own.find("the template in chat_template.jinja (sha256 "), std::string::npos) << own;
  EXPECT_NE(own.find("an empty thought stands"), std::string::npos);
  write_file(folder.path("model/chat_template.jinja"), "{% if %}");
  EXPECT_NE(test::run({"inspect", folder.path("model")}).out.find("cannot be used"), std::string::npos);
  write_file(folder.path("model/chat_template.jinja"), kLarge);
  const auto json = nlohmann::json::parse(test::run({"inspect", folder.path("model"), "--json"}).out);
  EXPECT_EQ(json["empty_thought_block"], true);
  EXPECT_EQ(json["chat_style_from"], "chat_template.jinja");
  EXPECT_EQ(json["chat_template"]["file"], folder.path("model/chat_template.jinja"));
  EXPECT_EQ(json["chat_template"]["sha256"].get<std::string>().size(), 64u);
}

}  // namespace
}  // namespace slip::session
