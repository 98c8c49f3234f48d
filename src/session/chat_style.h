// ChatStyle: which of Gemma 4's two kinds of chat prompt a checkpoint wants. The larger models (12B, 26B-A4B,
// 31B) expect an empty thought behind the generation prompt when they shall not think; E2B and E4B must not
// get one. The checkpoint's own template decides where one is shipped, else the architecture.
#pragma once

#include <string>

#include "model/config.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace slip::session {

struct ChatStyle {
  bool empty_thought_block = false;
  std::string origin = {};  // "chat_template.jinja", "tokenizer_config.json" or "the architecture"

  text::PromptOptions prompt(bool thinking) const {
    return {.empty_thought_block = empty_thought_block, .thinking = thinking};
  }
};

/// Looks for chat_template.jinja, then for "chat_template" in tokenizer_config.json. A template without
/// Gemma 4's turns decides nothing. Throws Error(kBadFile) when a file that is there cannot be read.
ChatStyle chat_style(const std::string& folder, const model::Config& config);

/// For people: "an empty thought stands before answers without thinking (chat_template.jinja)".
std::string describe(const ChatStyle& style);

/// Whether the tokenizer knows chat turns at all.
bool has_turns(const text::Tokenizer& tokenizer);

}  // namespace slip::session
