#include "cli/flags/conversation_options.h"

namespace slip::cli {

void add_conversation_options(Parser& parser, ConversationOptions& options) {
  parser.text({"--system,--system-prompt", "TEXT", "instructions that come before the prompt"},
              options.system);
  parser.choice(
      {"--think,--thinking", "on|off", "ask the model to think before it answers (default: the template's)"},
      {"on", "off"}, options.think);
  parser.choice({"--show-thinking", "WHEN", "print its thoughts: on, off, or auto: on a terminal (default)"},
                {"auto", "on", "off"}, options.show_thinking);
  parser.text({"--chat-template", "FILE", "a Jinja template in place of the model's own"},
              options.chat_template);
}

bool shows_thinking(const ConversationOptions& options, bool terminal) {
  return options.show_thinking == "auto" ? terminal : options.show_thinking == "on";
}

}  // namespace slip::cli
