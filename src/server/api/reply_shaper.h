// ReplyShaper: from the deltas of one reply to what every API says of it: reasoning, text, finished tool calls, scores.
// Streams and whole answers are both made of its pieces, so they cannot differ.
//
// It keeps four promises that clients count on:
// - A call that the end of the tokens cut short is dropped; half a call is of no use to anybody.
// - Arguments are JSON of an object, typed by the tool's schema.
// - With parallel calls off, nothing follows the first call.
// - An answer that ended by itself is not empty: where the model said all in its thoughts, they are the answer. Where it
//   said nothing at all, the answer is a line break.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "text/conversation.h"
#include "text/tokenizer.h"

namespace slip::server::api {

/// Why a reply is over, as far as clients tell.
enum class Ending { kComplete, kLength, kCalls };

struct ShapedCall {
  int index = 0;
  std::string id, name, arguments;
};

struct Score {
  int id = 0;
  float logprob = 0;
  std::vector<sample::TokenLogprob> top = {};
};

/// What one delta adds. Items are in the order the model wrote them.
struct Shaped {
  struct Item {
    text::ReplyEvent::Kind kind = text::ReplyEvent::Kind::kText;
    std::string text = {};
    ShapedCall call = {};
  };
  std::vector<Item> items;
  std::vector<Score> scores;     // of tokens of the answer's text
  engine::Landing landing = {};  // of the token, by what came out
  size_t copied = 0;             // bytes of text that repeat the thoughts, and are no token's
  bool cancel = false;           // nothing more is wanted of this reply
};

class ReplyShaper {
 public:
  struct Options {
    std::span<const text::Tool> tools = {};  // outlive the shaper
    bool parallel_calls = true;
    bool chat = true;              // false: a completion, which may well be empty
    bool scores = false;           // wanted
    int call_token = -1;           // the id of <|tool_call>
    bool begun = false;            // the prompt holds the beginning of the reply
    bool in_call = false;          // which stops within a call
    std::string call_prefix = {};  // of the ids of calls, "call_1f"
  };
  explicit ReplyShaper(Options options)
      : options_(std::move(options)), in_call_(options_.in_call), answered_(options_.begun) {}

  /// Only deltas of the reply, not of its prompt.
  Shaped add(const engine::Delta& delta);

  int calls() const { return calls_; }
  Ending ending(engine::FinishReason reason) const;

 private:
  void add_call(const text::ReplyEvent& event, Shaped& out);
  void add_text(const text::ReplyEvent& event, std::string_view text, Shaped& out);
  static engine::Landing landing_of(const engine::Delta& delta, const Shaped& out);
  void add_score(const engine::Delta& delta, Shaped& out) const;

  Options options_;
  int calls_ = 0;
  bool in_call_;          // the last token stands in a call that is not complete
  bool answered_;         // some text came out
  bool closed_ = false;   // nothing more comes out
  std::string thoughts_;  // kept until there is an answer
};

/// OpenAI's word, of chat and completions.
const char* finish_reason(Ending ending);

}  // namespace slip::server::api
