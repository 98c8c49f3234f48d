#include "cli/chat_session.h"

#include "text/chat.h"
#include "text/utf8.h"

namespace slip::cli {

std::vector<int> ChatSession::prompt(const std::string& message) const {
  std::vector<text::Turn> turns;
  if (!system.empty()) turns.push_back({text::Role::kSystem, system});
  turns.insert(turns.end(), turns_.begin(), turns_.end());
  turns.push_back({text::Role::kUser, message});
  return text::encode_chat(*tokenizer_, turns, style_.prompt(thinking));
}

bool ChatSession::add(const std::string& message, const Reply& reply) {
  std::string answer = reply.answer();
  // Nobody answers calls here; kept as calls they would wait for that forever.
  for (const text::ReplyEvent& call : reply.calls()) answer += (answer.empty() ? "" : "\n") + call.text;
  if (text::trim(answer).empty()) return false;
  turns_.push_back({text::Role::kUser, message});
  turns_.push_back({text::Role::kAssistant, answer});
  return true;
}

}  // namespace slip::cli
