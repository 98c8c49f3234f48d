// Chat: a conversation as Gemma 4's prompt. A turn is <|turn>ROLE, a line break, its text, <turn|> and a line
// break; the assistant's role is called "model"; a system turn comes first. Texts are trimmed.
//
// What people wrote stays text: encode_chat() places the control tokens itself and encodes everything else
// with special tokens off, so "<turn|>" in a question cannot end the turn. render_prompt() shows the same
// prompt as one string, for reading and for tests; encoding that string again would let such texts through.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace slip::text {

enum class Role { kSystem, kDeveloper, kUser, kAssistant };

/// From the names used in requests: system, developer, user, assistant, model; others throw Error(kUsage).
Role role_of(std::string_view name);

struct Turn {
  Role role = Role::kUser;
  std::string text;
};

struct PromptOptions {
  /// The 12B, 26B-A4B and 31B models expect an empty thought behind the generation prompt when they shall not
  /// think; E2B and E4B must not get one (they leak reasoning then).
  bool empty_thought_block = false;
  /// Ends with an open model turn for the model to fill.
  bool add_generation_prompt = true;
};

std::string render_prompt(std::span<const Turn> turns, PromptOptions options = {});

/// Throws Error(kBadFile) when the tokenizer lacks Gemma's control tokens.
std::vector<int> encode_chat(const Tokenizer& tokenizer, std::span<const Turn> turns,
                             PromptOptions options = {});

}  // namespace slip::text
