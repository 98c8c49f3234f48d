// ReplyParser: what a model writes, told apart: reasoning, answer, tool calls. A state machine fed with
// tokens as they come; its events are the same however tokens are grouped and however their text is cut.
//
// Control tokens count by their id; the same characters written in ordinary tokens are text. Text is given
// out at once, with three exceptions: the label after <|channel>, one line break that may belong to
// <channel|>, and a call, which is whole or none. Nothing is lost: what turns out to be no call comes out as
// text, spelled as it came, where it was written (in the answer or in a thought). A stray <channel|>, a
// second thought and a missing <tool_call|> are put up with.
//
// Inside a string of a call only <|"|> and the tokens that end a reply count. Cost: a copy of the text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/reply_event.h"
#include "text/tokenizer.h"

namespace slip::text {

/// Ids of the tokens that matter; -1 where the tokenizer has none.
struct ReplyTokens {
  int channel = -1, channel_end = -1;
  int tool_call = -1, tool_call_end = -1;
  int quote = -1;
  int tool_response = -1, turn_end = -1, eos = -1;  // these end a reply

  static ReplyTokens of(const Tokenizer& tokenizer);
};

/// A token and what StreamDecoder (with special tokens shown) gave for it: nothing while bytes are held back,
/// those bytes with the token after them.
struct ReplyToken {
  int id = 0;
  std::string_view piece;
};

class ReplyParser {
 public:
  /// `in_thought`: the prompt already opened a thought.
  explicit ReplyParser(ReplyTokens tokens, bool in_thought = false)
      : tokens_(tokens), state_(in_thought ? State::kReasoning : State::kAnswer) {}

  /// Appends what has become certain to `out`; text that goes on from the last event there is added to it.
  void feed(ReplyToken token, std::vector<ReplyEvent>& out);
  void feed(std::span<const ReplyToken> tokens, std::vector<ReplyEvent>& out);
  /// Where text written now lands; inside a call that is not complete yet, kToolCall.
  Place place() const;
  /// The reply has ended: gives out what was held back. The parser then expects an answer.
  void finish(std::vector<ReplyEvent>& out);

 private:
  enum class State { kAnswer, kLabel, kReasoning, kCall };

  void text(std::string_view words, std::vector<ReplyEvent>& out);
  void label(std::string_view words, std::vector<ReplyEvent>& out);
  void reasoning(std::string_view words, std::vector<ReplyEvent>& out);
  void control(int id, std::string_view spelled, std::vector<ReplyEvent>& out);
  void control_in_call(int id, std::string_view spelled, std::vector<ReplyEvent>& out);
  void settle(std::vector<ReplyEvent>& out);
  void end_call(std::string_view spelled_end, std::vector<ReplyEvent>& out);
  void give(ReplyEvent::Kind kind, std::string_view words, std::vector<ReplyEvent>& out);
  bool ends_reply(int id) const {
    return id == tokens_.tool_response || id == tokens_.turn_end || id == tokens_.eos;
  }

  ReplyTokens tokens_;
  State state_;
  State around_call_ = State::kAnswer;  // where a call stands, and what goes on after it
  std::string held_;                    // the label, the line break or the call so far
  std::vector<size_t> quotes_;          // where in a held call the token <|"|> is spelled
};

}  // namespace slip::text
