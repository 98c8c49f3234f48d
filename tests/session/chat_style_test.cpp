// Which kind of chat prompt a checkpoint wants, and where that is read.
#include "session/chat_style.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
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
  write_file(folder.path("chat_template.jinja"), "<start_of_turn>user");  // of another family
  EXPECT_EQ(chat_style(folder.path(), with_per_layer(256)).origin, "the architecture");
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
  EXPECT_NE(test::run({"inspect", folder.path("model")}).out.find("an empty thought stands"),
            std::string::npos);
  const auto json = nlohmann::json::parse(test::run({"inspect", folder.path("model"), "--json"}).out);
  EXPECT_EQ(json["empty_thought_block"], true);
  EXPECT_EQ(json["chat_style_from"], "chat_template.jinja");
}

}  // namespace
}  // namespace slip::session
