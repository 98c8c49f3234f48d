// ChatSession: a conversation on its way, without any input or output: what was said, what the system says,
// whether the model shall think, and the prompt that follows from it. The prompt is the whole conversation
// each time, rendered as the model was trained on it (text/chat.h).
#pragma once

#include <string>
#include <vector>

#include "cli/chat_style.h"
#include "cli/reply.h"
#include "text/conversation.h"
#include "text/tokenizer.h"

namespace slip::cli {

class ChatSession {
 public:
  /// The tokenizer must outlive the session.
  ChatSession(const text::Tokenizer& tokenizer, ChatStyle style)
      : tokenizer_(&tokenizer), style_(std::move(style)) {}

  std::string system;
  bool thinking = false;

  /// The conversation with one more message, ready for the model to answer. Changes nothing.
  std::vector<int> prompt(const std::string& message) const;
  /// The message was answered, or the answer was stopped after this. An empty answer leaves no trace, since
  /// two messages in a row are nothing the model knows; false then.
  bool add(const std::string& message, const Reply& reply);
  /// Forgets what was said; system and thinking stay.
  void reset() { turns_.clear(); }

  int messages() const { return static_cast<int>(turns_.size()); }

 private:
  const text::Tokenizer* tokenizer_;
  ChatStyle style_;
  std::vector<text::Turn> turns_;
};

}  // namespace slip::cli
