#include "session/reply.h"

namespace slip::session {

using text::ReplyEvent;

void Reply::on_delta(const engine::Delta& delta) {
  const auto record = [&] {
    return TokenRecord{.id = delta.token,
                       .logprob = delta.logprob,
                       .top = {delta.top.begin(), delta.top.end()},
                       .drafter = delta.drafter == nullptr ? "" : delta.drafter,
                       .landing = delta.landing};
  };
  if (delta.of_prompt) {
    prompt.push_back(record());
    return;
  }
  if (delta.token >= 0) {
    tokens.push_back(delta.token);
    if (keep_records) records.push_back(record());
  }
  for (const ReplyEvent& event : delta.events) {
    switch (event.kind) {
      case ReplyEvent::Kind::kReasoning: reasoning += event.text; break;
      case ReplyEvent::Kind::kText: text += event.text; break;
      case ReplyEvent::Kind::kToolCall: calls.push_back(event); break;
    }
  }
  finish = delta.finish;
  error = delta.error;
  error_kind = delta.error_kind;
  if (delta.stats != nullptr) stats = *delta.stats;
}

void Reply::require_success() const {
  if (finish == engine::FinishReason::kError) fail(error_kind, "{}", error);
}

}  // namespace slip::session
