// ChatStyle: how a checkpoint wants a conversation written. Its own chat template decides where one is shipped, or
// the one the user names; a checkpoint without any is rendered natively (text/chat.h), as Google's templates of its
// size do. A template is parsed once and may be rendered from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "model/config.h"
#include "text/chat.h"
#include "text/jinja/template.h"
#include "text/rendered.h"
#include "text/tokenizer.h"

namespace slip::session {

/// A chat's options beyond what is said.
struct ChatOptions {
  std::optional<bool> thinking = {};  // not said: the template decides, which for Google's means no
  bool add_generation_prompt = true;
  /// The last turn, an assistant's, is left open, and the reply goes on where it stops.
  bool continue_last = false;
  /// One JSON object with further names for the template (`chat_template_kwargs`), or nothing.
  std::string more = {};
};

struct ChatStyle {
  // The larger models (12B, 26B-A4B, 31B) expect an empty thought behind the generation prompt when they shall not
  // think; E2B and E4B must not get one. Known of native rendering, read off a template for reports.
  bool empty_thought_block = false;
  std::string origin = {};  // "chat_template.jinja", "tokenizer_config.json", a file, or "the architecture"
  std::shared_ptr<const text::jinja::Template> own = nullptr;  // null: rendered natively
  std::string sha256 = {};                                     // of the template's text as the file has it
  std::string fault = {};  // why the template that is there cannot be used: prompts are refused with it

  /// Throws Error(kUsage) for what the template refuses, Error(kBadFile) for a template that cannot be used.
  text::Rendered render(const text::Conversation& conversation, const ChatOptions& options = {}) const;
};

/// Looks for chat_template.jinja, then for "chat_template" in tokenizer_config.json; `file`, when named, comes
/// before both. Throws Error(kBadFile) when a file that is there cannot be read, or when `file` is no template.
ChatStyle chat_style(const std::string& folder, const model::Config& config, const std::string& file = {});

/// For people: "the template in chat_template.jinja (sha256 0a2c8073c878ab1d); an empty thought ...".
std::string describe(const ChatStyle& style);

/// Whether the tokenizer knows chat turns at all.
bool has_turns(const text::Tokenizer& tokenizer);

}  // namespace slip::session
