// A tool call as a model wrote it: call:NAME{key:value,...}, strings between two <|"|> tokens. The text of
// the call comes with the places where that token stood, because the same characters typed out are only text.
//
// Forgiving where models are known to stray: key=value, keys and strings in ordinary quotes, JSON's and
// Python's literals, bare words as strings, white space, a trailing comma, text before "call:" or no "call:"
// at all, names with dots and dashes. Never guesses at half a call: a missing brace or quote is no call.
// Cost: linear in the text, but for up to 8 places where "call:" may start.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace slip::text {

struct ParsedCall {
  size_t begin = 0;  // where the call starts; what stands before it is text
  std::string name;
  nlohmann::ordered_json arguments;  // an object, its keys in the order written
};

/// `quotes`: ascending offsets in `text` at which the token <|"|> is spelled. Nothing when it is no call.
std::optional<ParsedCall> parse_call(std::string_view text, std::span<const size_t> quotes);

}  // namespace slip::text
