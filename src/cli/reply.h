// Reply: what a model answers to a chat prompt, told apart into reasoning, answer and tool calls while it
// comes. The engine sees only the answer as text, so that stop strings count there and nowhere else; the rest
// takes a way around it. Because the engine may hold answer text back (it could begin a stop string), take()
// puts both in the order in which the model wrote them.
//
// The stream must not outlive the Reply. Cost: a copy of the text.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "text/reply_parser.h"
#include "text/tokenizer.h"

namespace slip::cli {

class Reply {
 public:
  /// For Request::text. Once per Reply; the tokenizer must outlive it.
  std::unique_ptr<engine::TextStream> stream(const text::Tokenizer& tokenizer);

  /// What this delta brought, in order. Valid until the next call.
  std::span<const text::ReplyEvent> take(const engine::Delta& delta);

  // All of it so far.
  const std::string& answer() const { return answer_; }
  const std::string& reasoning() const { return reasoning_; }
  const std::vector<text::ReplyEvent>& calls() const { return calls_; }

 private:
  class Stream;
  struct Aside {
    size_t at = 0;  // bytes of the answer that stand before it
    text::ReplyEvent event;
  };

  void give(text::ReplyEvent event);
  void give_answer(std::string_view text);

  std::deque<Aside> asides_;  // not given out yet
  std::vector<text::ReplyEvent> events_;
  std::string answer_, reasoning_;
  std::vector<text::ReplyEvent> calls_;
};

}  // namespace slip::cli
