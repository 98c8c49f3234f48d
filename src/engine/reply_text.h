// ReplyText: what a sequence's tokens say, on their way out. Puts the events of a ReplyStream through the stop
// strings: these count in text alone, and text on both sides of a thought or a call is not one text, so what is
// held back comes out before either. Knows where each token's bytes landed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/stop_matcher.h"

namespace slip::engine {

class ReplyText {
 public:
  /// Without a stream nothing ever comes out.
  ReplyText(std::unique_ptr<ReplyStream> stream, std::vector<std::string> stops);

  /// Begins the delta of the next token: forgets the events of the one before.
  void begin();
  /// Adds what the token says.
  void push(int token);
  /// No more tokens follow: adds what was held back.
  void finish();

  /// Of the delta at hand.
  std::span<const text::ReplyEvent> events() const { return events_; }
  Landing landing() const { return landing_; }
  /// A stop string was found; nothing more comes out.
  bool stopped() const { return matcher_.matched(); }

 private:
  void pass_on(bool last);
  void release(std::string_view text);
  void land(text::Place place, size_t bytes);

  std::unique_ptr<ReplyStream> stream_;
  StopMatcher matcher_;
  std::vector<text::ReplyEvent> raw_;     // as they come from the stream
  std::vector<text::ReplyEvent> events_;  // as they go out
  Landing landing_;
  int calls_ = 0;
};

}  // namespace slip::engine
