// What a person types in `chat`: a message, or a command that begins with a slash.
#pragma once

#include <string>
#include <string_view>

namespace slip::cli {

struct ChatInput {
  enum class Kind { kNothing, kMessage, kSystem, kThink, kImage, kStats, kReset, kHelp, kExit };
  Kind kind = Kind::kNothing;
  std::string text = {};  // the message, or what stands behind the command
};

/// "//" begins a message with a slash. Throws Error(kUsage) for a command that there is not.
ChatInput read_input(std::string_view line);

/// What /help prints.
std::string chat_help();

}  // namespace slip::cli
