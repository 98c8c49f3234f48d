#include "text/reply_parser.h"

#include <algorithm>
#include <utility>

#include "text/call_parser.h"
#include "text/prompt.h"

namespace slip::text {
namespace {

using Kind = ReplyEvent::Kind;

constexpr std::string_view kLabel = "thought\n";

}  // namespace

ReplyTokens ReplyTokens::of(const Tokenizer& tokenizer) {
  const auto id = [&](std::string_view token) { return tokenizer.id_of(token).value_or(-1); };
  return {.channel = id(mark::kChannel),
          .channel_end = id(mark::kChannelEnd),
          .tool_call = id(mark::kToolCall),
          .tool_call_end = id(mark::kToolCallEnd),
          .quote = id(mark::kQuote),
          .tool_response = id(mark::kToolResponse),
          .turn_end = id(mark::kTurnEnd),
          .eos = id(mark::kEos)};
}

void ReplyParser::feed(std::span<const ReplyToken> tokens, std::vector<ReplyEvent>& out) {
  for (const ReplyToken& token : tokens) feed(token, out);
}

void ReplyParser::feed(ReplyToken token, std::vector<ReplyEvent>& out) {
  const std::pair<int, std::string_view> controls[] = {
      {tokens_.channel, mark::kChannel},    {tokens_.channel_end, mark::kChannelEnd},
      {tokens_.tool_call, mark::kToolCall}, {tokens_.tool_call_end, mark::kToolCallEnd},
      {tokens_.quote, mark::kQuote},        {tokens_.tool_response, mark::kToolResponse},
      {tokens_.turn_end, mark::kTurnEnd},   {tokens_.eos, mark::kEos}};
  for (const auto& [id, spelled] : controls) {
    if (id < 0 || token.id != id) continue;
    if (token.piece.ends_with(spelled)) token.piece.remove_suffix(spelled.size());
    text(token.piece, out);  // bytes that were held back until now
    return control(id, spelled, out);
  }
  text(token.piece, out);
}

void ReplyParser::text(std::string_view words, std::vector<ReplyEvent>& out) {
  if (words.empty()) return;
  switch (state_) {
    case State::kAnswer: return give(Kind::kText, words, out);
    case State::kLabel: return label(words, out);
    case State::kReasoning: return reasoning(words, out);
    case State::kCall: held_ += words; return;
  }
}

void ReplyParser::label(std::string_view words, std::vector<ReplyEvent>& out) {
  while (!words.empty()) {
    held_ += words.front();
    words.remove_prefix(1);
    if (kLabel.starts_with(held_) && held_.size() < kLabel.size()) continue;
    // Either the label is complete, or there is none and this is the thought itself.
    const std::string begun = held_ == kLabel ? std::string() : std::move(held_);
    held_.clear();
    state_ = State::kReasoning;
    reasoning(begun, out);
    return reasoning(words, out);
  }
}

void ReplyParser::reasoning(std::string_view words, std::vector<ReplyEvent>& out) {
  if (words.empty()) return;
  give(Kind::kReasoning, held_, out);
  held_.clear();
  if (words.back() == '\n') {
    held_ = "\n";
    words.remove_suffix(1);
  }
  give(Kind::kReasoning, words, out);
}

/// Gives out what a label or a thought holds back, as no <channel|> follows it.
void ReplyParser::settle(std::vector<ReplyEvent>& out) {
  // The bare word is a label that lost its line break.
  if (state_ == State::kReasoning || (state_ == State::kLabel && held_ != "thought")) {
    give(Kind::kReasoning, held_, out);
  }
  held_.clear();
}

void ReplyParser::control(int id, std::string_view spelled, std::vector<ReplyEvent>& out) {
  if (state_ == State::kCall) return control_in_call(id, spelled, out);
  if (id == tokens_.quote) return text(spelled, out);
  if (id == tokens_.channel_end) {
    if (state_ == State::kReasoning) held_.clear();  // the line break was part of the mark
    settle(out);
    state_ = State::kAnswer;
  } else if (id == tokens_.channel) {
    settle(out);
    state_ = State::kLabel;
  } else if (id == tokens_.tool_call) {
    settle(out);
    around_call_ = state_ == State::kAnswer ? State::kAnswer : State::kReasoning;
    state_ = State::kCall;
  }
  // A stray <tool_call|> and the ends of a reply carry no text.
}

void ReplyParser::control_in_call(int id, std::string_view spelled, std::vector<ReplyEvent>& out) {
  const bool in_string = quotes_.size() % 2 != 0;
  if (id == tokens_.quote) {
    quotes_.push_back(held_.size());
    held_ += spelled;
  } else if (in_string && !ends_reply(id)) {
    held_ += spelled;
  } else if (id == tokens_.tool_call_end) {
    end_call(spelled, out);
  } else {
    end_call({}, out);
    control(id, spelled, out);
  }
}

void ReplyParser::end_call(std::string_view spelled_end, std::vector<ReplyEvent>& out) {
  const Kind kind = around_call_ == State::kAnswer ? Kind::kText : Kind::kReasoning;
  if (auto call = parse_call(held_, quotes_)) {
    give(kind, std::string_view(held_).substr(0, call->begin), out);
    std::string arguments =
        call->arguments.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    out.push_back({Kind::kToolCall, held_.substr(call->begin), std::move(call->name), std::move(arguments)});
  } else {
    give(kind, std::string(mark::kToolCall).append(held_).append(spelled_end), out);
  }
  held_.clear();
  quotes_.clear();
  state_ = around_call_;
}

Place ReplyParser::place() const {
  switch (state_) {
    case State::kAnswer: return Place::kText;
    case State::kLabel: return Place::kNone;
    case State::kReasoning: return Place::kReasoning;
    case State::kCall: return Place::kToolCall;
  }
  return Place::kNone;
}

void ReplyParser::finish(std::vector<ReplyEvent>& out) {
  if (state_ == State::kCall) end_call({}, out);
  settle(out);
  state_ = State::kAnswer;
}

void ReplyParser::give(Kind kind, std::string_view words, std::vector<ReplyEvent>& out) {
  if (words.empty()) return;
  if (out.empty() || out.back().kind != kind) out.push_back({kind});
  out.back().text += words;
}

}  // namespace slip::text
