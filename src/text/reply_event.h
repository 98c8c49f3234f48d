// ReplyEvent: a stretch of a model's reply, told apart: reasoning, text, or a whole tool call. Everything behind
// the parser speaks of replies in these: the engine's deltas, sinks, the library and the server.
#pragma once

#include <cstdint>
#include <string>

namespace slip::text {

struct ReplyEvent {
  enum class Kind : uint8_t { kReasoning, kText, kToolCall };
  Kind kind = Kind::kText;
  std::string text = {};       // of a call: what the model wrote, from "call:" to the brace
  std::string name = {};       // of a call
  std::string arguments = {};  // of a call: a JSON object, its keys in the order the model wrote them
  bool operator==(const ReplyEvent&) const = default;
};

/// Where the text of a token lands. kNone: a control token, or text that nobody sees.
enum class Place : uint8_t { kNone, kReasoning, kText, kToolCall };

}  // namespace slip::text
