#include "server/api/reply_shaper.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/api/tool_types.h"
#include "text/prompt.h"
#include "text/utf8.h"

namespace slip::server::api {

using engine::FinishReason;
using text::ReplyEvent;
using Kind = ReplyEvent::Kind;

Shaped ReplyShaper::add(const engine::Delta& delta) {
  Shaped out;
  const bool was_closed = closed_;
  const bool cut_short = delta.finish != FinishReason::kNone && delta.finish != FinishReason::kStopId;
  const bool half_call = cut_short && (in_call_ || (delta.token >= 0 && delta.token == options_.call_token));
  for (const ReplyEvent& event : delta.events) {
    if (closed_) break;
    if (event.kind == Kind::kToolCall) {
      add_call(event, out);
      continue;
    }
    std::string_view text = event.text;
    // The parser gives half a call back as it is spelled.
    if (half_call) text = text.substr(0, text.find(text::mark::kToolCall));
    add_text(event, text, out);
  }
  in_call_ = delta.landing.place == text::Place::kToolCall;
  if (!was_closed) out.landing = landing_of(delta, out);
  if (!closed_) add_score(delta, out);
  if (delta.finish == FinishReason::kStopId && options_.chat && !answered_ && calls_ == 0) {
    std::string said(text::trim(thoughts_));
    if (said.empty()) said = "\n";  // control tokens alone; clients take an empty answer for a failure
    out.copied = said.size();
    out.items.push_back({.kind = Kind::kText, .text = std::move(said)});
  }
  return out;
}

void ReplyShaper::add_call(const ReplyEvent& event, Shaped& out) {
  const auto tool = std::find_if(options_.tools.begin(), options_.tools.end(),
                                 [&](const text::Tool& known) { return known.name == event.name; });
  const nlohmann::json none;
  ShapedCall call{
      .index = calls_,
      .id = fmt::format("{}_{}", options_.call_prefix, calls_),
      .name = event.name,
      .arguments = typed_arguments(event.arguments, tool == options_.tools.end() ? none : tool->parameters)};
  out.items.push_back({.kind = Kind::kToolCall, .call = std::move(call)});
  ++calls_;
  thoughts_.clear();
  if (!options_.parallel_calls) closed_ = out.cancel = true;
}

void ReplyShaper::add_text(const ReplyEvent& event, std::string_view text, Shaped& out) {
  if (text.empty()) return;
  if (event.kind == Kind::kText) {
    answered_ = true;
    thoughts_ = {};
  } else if (options_.chat && !answered_ && calls_ == 0) {
    thoughts_ += text;
  }
  out.items.push_back({.kind = event.kind, .text = std::string(text)});
}

/// What the engine says of the token, with the bytes that are left of its text.
engine::Landing ReplyShaper::landing_of(const engine::Delta& delta, const Shaped& out) {
  engine::Landing landing = delta.landing;
  landing.bytes = 0;
  for (const Shaped::Item& item : out.items) {
    if (item.kind == Kind::kToolCall) continue;
    landing.place = item.kind == Kind::kText ? text::Place::kText : text::Place::kReasoning;
    landing.call = -1;
    landing.bytes += static_cast<int>(item.text.size());
  }
  return landing;
}

void ReplyShaper::add_score(const engine::Delta& delta, Shaped& out) const {
  const bool of_answer = delta.token >= 0 && delta.finish != FinishReason::kStopId;
  if (!options_.scores || !of_answer) return;
  if (options_.chat && delta.landing.place != text::Place::kText) return;
  out.scores.push_back({delta.token, delta.logprob, {delta.top.begin(), delta.top.end()}});
}

Ending ReplyShaper::ending(FinishReason reason) const {
  const bool cut = reason == FinishReason::kMaxTokens || reason == FinishReason::kContext;
  if (cut && !closed_) return Ending::kLength;
  return calls_ > 0 ? Ending::kCalls : Ending::kComplete;
}

const char* finish_reason(Ending ending) {
  switch (ending) {
    case Ending::kLength: return "length";
    case Ending::kCalls: return "tool_calls";
    case Ending::kComplete: break;
  }
  return "stop";
}

}  // namespace slip::server::api
