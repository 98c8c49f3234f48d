// What is read out of a checkpoint's own chat template.
#include "text/chat_template.h"

#include <gtest/gtest.h>

namespace slip::text {
namespace {

TEST(ChatTemplate, finds_an_empty_thought_however_it_is_spelled) {
  EXPECT_TRUE(writes_empty_thought(R"({{- '<|turn>model\n' -}}{{- '<|channel>thought\n<channel|>' -}})"));
  EXPECT_TRUE(writes_empty_thought(R"({{ '<|channel>thought' ~ '\n' ~ "<channel|>" }})"));
  EXPECT_TRUE(writes_empty_thought("{{ '<|channel>' }}thought\n<channel|>"));
  EXPECT_TRUE(
      writes_empty_thought(R"({{ '<|channel>thought\n' + m.reasoning + '\n<channel|>' }}{% if not think %}
                              {{ '<|channel>thought\n<channel|>' }}{% endif %})"));
}

TEST(ChatTemplate, does_not_take_a_thought_with_content_for_an_empty_one) {
  EXPECT_FALSE(writes_empty_thought(R"({{ '<|channel>thought\n' + m['reasoning'] + '\n<channel|>' }})"));
  EXPECT_FALSE(writes_empty_thought(R"({%- set parts = text.split('<channel|>') -%}'<|channel>')"));
  EXPECT_FALSE(writes_empty_thought("<|channel>thought"));
  EXPECT_FALSE(writes_empty_thought(""));
}

TEST(ChatTemplate, knows_gemma_turns) {
  EXPECT_TRUE(has_turns("{{ '<|turn>' + role }}"));
  EXPECT_FALSE(has_turns("<start_of_turn>user"));
}

}  // namespace
}  // namespace slip::text
