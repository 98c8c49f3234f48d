// Fuzzes the reply parser: whatever a model writes, its events are the same however it is cut into tokens, no
// text is lost or made up, and calls hold what can be written as JSON.
//
// An input is a reply: the bytes 1 to 8 are control tokens, 0 ends a token, all others are text. One that
// starts with 8 is the rest of an open thought.
#include <algorithm>

#include "fuzz/target.h"
#include "text/prompt.h"
#include "text/reply_parser.h"
#include "text/tool_syntax.h"
#include "text/utf8.h"

namespace {

using namespace slip::text;

constexpr ReplyTokens kTokens{.channel = 1,
                              .channel_end = 2,
                              .tool_call = 3,
                              .tool_call_end = 4,
                              .quote = 5,
                              .tool_response = 6,
                              .turn_end = 7,
                              .eos = 8};
constexpr int kWord = 100;
constexpr std::string_view kMarks[] = {mark::kChannel,     mark::kChannelEnd, mark::kToolCall,
                                       mark::kToolCallEnd, mark::kQuote,      mark::kToolResponse,
                                       mark::kTurnEnd,     mark::kEos};

bool is_control(char c) {
  return c >= 1 && c <= 8;
}

/// In tokens of up to `size` bytes of text.
std::vector<ReplyToken> tokens_of(std::string_view reply, size_t size) {
  std::vector<ReplyToken> tokens;
  for (size_t at = 0; at < reply.size(); ++at) {
    if (is_control(reply[at])) {
      tokens.push_back({reply[at], kMarks[reply[at] - 1]});
    } else if (reply[at] != 0) {
      size_t length = 1;
      while (length < size && at + length < reply.size() && !is_control(reply[at + length]) &&
             reply[at + length] != 0) {
        ++length;
      }
      tokens.push_back({kWord, reply.substr(at, length)});
      at += length - 1;
    }
  }
  return tokens;
}

std::vector<ReplyEvent> events_of(const std::vector<ReplyToken>& tokens, bool in_thought) {
  std::vector<ReplyEvent> events;
  ReplyParser parser(kTokens, in_thought);
  for (const ReplyToken& token : tokens) parser.feed(token, events);
  parser.finish(events);
  return events;
}

/// What is given stands in what was written, in that order; only marks, labels and line breaks are missing.
void check_text(const std::vector<ReplyToken>& tokens, const std::vector<ReplyEvent>& events) {
  std::string written, given;
  size_t controls = 0;
  for (const ReplyToken& token : tokens) {
    written += token.piece;
    controls += token.id != kWord;
  }
  for (const ReplyEvent& event : events) given += event.text;
  size_t at = 0;
  for (const char c : given) {
    at = written.find(c, at);
    fuzz_check(at != std::string::npos);
    ++at;
  }
  constexpr size_t kLongestMark = 17, kLabelAndBreak = 9;
  fuzz_check(written.size() - given.size() <= (controls + 1) * (kLongestMark + kLabelAndBreak));
}

void check_call(const ReplyEvent& call) {
  const auto arguments = nlohmann::json::parse(call.arguments, nullptr, false);
  fuzz_check(!call.name.empty() && arguments.is_object());
  PromptWriter writer;
  write_call({.name = call.name, .arguments = arguments}, writer);
  fuzz_check(!writer.take().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view reply(reinterpret_cast<const char*>(data), size);
  const bool in_thought = reply.starts_with('\x08');
  if (in_thought) reply.remove_prefix(1);
  const auto tokens = tokens_of(reply, 1000);
  const auto events = events_of(tokens, in_thought);
  for (const size_t cut : {1, 2, 7}) fuzz_check(events_of(tokens_of(reply, cut), in_thought) == events);
  check_text(tokens, events);
  for (size_t i = 0; i < events.size(); ++i) {
    fuzz_check(!events[i].text.empty());
    if (events[i].kind == ReplyEvent::Kind::kToolCall) {
      check_call(events[i]);
    } else {
      fuzz_check(i == 0 || events[i - 1].kind != events[i].kind);
    }
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {"\x01thought\nLet me see.\n\x02Yes.\x07",
          "\x08so\n\x02x",
          "I look.\x03"
          "call:get_weather{city:\x05S\xC3\xA3o \"Paulo\", {x}\n\x05,days:3}\x04\x03"
          "call:ping{}\x04\x06",
          "\x03"
          "call:f{a:1,b:-2.5e3,c:true,d:None,f:{g:[1,[],{}]},h:[\x05x\x05,\x05\x05]}\x04",
          "\x03"
          "call:f{\"a\": \"x\\n\\\"y\\\" \\u00e9\\ud83d\\ude00\", 'b': 'it's', c=1e999,}",
          "\x01though I\x02x\x03"
          "call:f{a:\x05}\x04\x01,b:1\x05}\x08"};
}
