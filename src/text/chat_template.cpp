#include "text/chat_template.h"

#include "text/prompt.h"

namespace slip::text {
namespace {

/// Behind white space, the escape \n, and what joins two literals: ' " + ~ {{ }} and the dashes in them.
std::string_view after_joints(std::string_view text) {
  while (!text.empty()) {
    if (text.starts_with("\\n")) {
      text.remove_prefix(2);
    } else if (std::string_view(" \t\r\n'\"+~{}-").find(text.front()) != std::string_view::npos) {
      text.remove_prefix(1);
    } else {
      break;
    }
  }
  return text;
}

}  // namespace

bool has_turns(std::string_view chat_template) {
  return chat_template.find(mark::kTurn) != std::string_view::npos;
}

bool writes_empty_thought(std::string_view chat_template) {
  constexpr std::string_view kLabel = "thought";
  while (true) {
    const size_t begin = chat_template.find(mark::kChannel);
    if (begin == std::string_view::npos) return false;
    chat_template = after_joints(chat_template.substr(begin + mark::kChannel.size()));
    if (!chat_template.starts_with(kLabel)) continue;
    chat_template = after_joints(chat_template.substr(kLabel.size()));
    if (chat_template.starts_with(mark::kChannelEnd)) return true;
  }
}

}  // namespace slip::text
