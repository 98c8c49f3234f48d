// The options about what is said to a model and what of its reply is shown, shared by the commands that talk.
#pragma once

#include <optional>
#include <string>

#include "cli/flags/parser.h"

namespace slip::cli {

struct ConversationOptions {
  std::string system;
  std::string chat_template;           // a file; empty = the model's own
  std::string think;                   // on or off; empty = the template's own default
  std::string show_thinking = "auto";  // auto, on or off

  std::optional<bool> thinking() const { return think.empty() ? std::nullopt : std::optional(think == "on"); }
  bool asks_to_think() const { return think == "on"; }
};

/// Adds --system, --think, --show-thinking and --chat-template.
void add_conversation_options(Parser& parser, ConversationOptions& options);

/// Whether reasoning is printed; auto says yes on a terminal.
bool shows_thinking(const ConversationOptions& options, bool terminal);

}  // namespace slip::cli
