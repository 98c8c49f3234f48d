// ChatSession: a conversation on its way, without any input or output: what was said, what the system says,
// whether the model shall think. The prompt is the whole conversation each time, rendered as the model was
// trained on it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "session/model.h"
#include "session/reply.h"
#include "text/conversation.h"

namespace slip::cli {

class ChatSession {
 public:
  std::string system;
  std::optional<bool> thinking = {};

  /// Goes with the next message.
  void show(session::Picture picture) { pictures_.push_back(std::move(picture)); }
  /// All that were shown, in order; the last of them go with the next message.
  std::span<const session::Picture> pictures() const { return pictures_; }
  std::span<const session::Picture> waiting() const { return pictures().subspan(sent_); }

  /// The conversation with one more message, ready for the model to answer. Changes nothing.
  text::Conversation with(const std::string& message) const;
  session::Prompt prompt(const session::Model& model, const std::string& message) const {
    return model.prompt(with(message), {.thinking = thinking}, pictures_);
  }
  /// The message was answered, or the answer was stopped after this. An empty answer leaves no trace, since
  /// two messages in a row are nothing the model knows; false then.
  bool add(const std::string& message, const session::Reply& reply);
  /// Forgets what was said; system and thinking stay.
  void reset() {
    turns_.clear();
    pictures_.clear();
    sent_ = 0;
  }

  int messages() const { return static_cast<int>(turns_.size()); }

 private:
  std::vector<text::Turn> turns_;
  std::vector<session::Picture> pictures_;
  size_t sent_ = 0;  // of them, in turns_
};

}  // namespace slip::cli
