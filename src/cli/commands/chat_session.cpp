#include "cli/commands/chat_session.h"

#include "cli/commands/pictures.h"
#include "text/utf8.h"

namespace slip::cli {

text::Conversation ChatSession::with(const std::string& message) const {
  text::Conversation conversation;
  if (!system.empty()) conversation.turns.push_back({text::Role::kSystem, system});
  conversation.turns.insert(conversation.turns.end(), turns_.begin(), turns_.end());
  conversation.turns.push_back(turn_with_pictures(message, waiting().size()));
  return conversation;
}

bool ChatSession::add(const std::string& message, const session::Reply& reply) {
  std::string answer = reply.text;
  // Nobody answers calls here; kept as calls they would wait for that forever.
  for (const text::ReplyEvent& call : reply.calls) answer += (answer.empty() ? "" : "\n") + call.text;
  if (text::trim(answer).empty()) return false;
  turns_.push_back(turn_with_pictures(message, waiting().size()));
  sent_ = pictures_.size();
  turns_.push_back({text::Role::kAssistant, answer});
  return true;
}

}  // namespace slip::cli
