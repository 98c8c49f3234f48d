// The options about what is said to a model and what of its reply is shown, shared by the commands that talk.
#pragma once

#include <string>

#include "cli/flags/parser.h"

namespace slip::cli {

struct ConversationOptions {
  std::string system;
  std::string chat_template;           // a file; empty = the model's own
  std::string think = "off";           // on or off
  std::string show_thinking = "auto";  // auto, on or off

  bool thinking() const { return think == "on"; }
};

/// Adds --system, --think, --show-thinking and --chat-template.
void add_conversation_options(Parser& parser, ConversationOptions& options);

/// Whether reasoning is printed; auto says yes on a terminal.
bool shows_thinking(const ConversationOptions& options, bool terminal);

}  // namespace slip::cli
