#include "text/reply_parser.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "support/rounds.h"
#include "text/detokenizer.h"
#include "text/golden_tokenizer.h"
#include "text/prompt.h"

namespace slip::text {
namespace {

using Kind = ReplyEvent::Kind;
using nlohmann::json;

constexpr ReplyTokens kTokens{.channel = 1,
                              .channel_end = 2,
                              .tool_call = 3,
                              .tool_call_end = 4,
                              .quote = 5,
                              .tool_response = 6,
                              .turn_end = 7,
                              .eos = 8};
constexpr int kWord = 100;  // the id of all ordinary tokens
constexpr std::string_view kMarks[] = {mark::kChannel,     mark::kChannelEnd, mark::kToolCall,
                                       mark::kToolCallEnd, mark::kQuote,      mark::kToolResponse,
                                       mark::kTurnEnd,     mark::kEos};

// The tokens of a reply, its control tokens spelled out, ordinary text in pieces of `size` bytes. The pieces
// are views into `reply`.
std::vector<ReplyToken> tokens_of(std::string_view reply, size_t size) {
  std::vector<ReplyToken> tokens;
  std::string_view rest = reply;
  const auto control_at = [&](size_t at) {
    for (int i = 0; i < 8; ++i) {
      if (rest.substr(at).starts_with(kMarks[i])) return i;
    }
    return -1;
  };
  while (!rest.empty()) {
    if (const int i = control_at(0); i >= 0) {
      tokens.push_back({i + 1, rest.substr(0, kMarks[i].size())});
    } else {
      size_t length = 1;
      while (length < size && length < rest.size() && control_at(length) < 0) ++length;
      tokens.push_back({kWord, rest.substr(0, length)});
    }
    rest.remove_prefix(tokens.back().piece.size());
  }
  return tokens;
}

std::vector<ReplyEvent> events_of(std::span<const ReplyToken> tokens, size_t group, bool in_thought = false) {
  std::vector<ReplyEvent> events;
  ReplyParser parser(kTokens, in_thought);
  for (size_t at = 0; at < tokens.size(); at += group) {
    parser.feed(tokens.subspan(at, std::min(group, tokens.size() - at)), events);
  }
  parser.finish(events);
  return events;
}

// Checks on the way that the size of pieces and the grouping make no difference.
std::vector<ReplyEvent> parse(std::string_view reply, bool in_thought = false) {
  const auto whole = events_of(tokens_of(reply, reply.size()), reply.size() + 1, in_thought);
  for (const size_t size : {1, 2, 3, 7}) {
    const auto tokens = tokens_of(reply, size);
    for (const size_t group : {size_t{1}, size_t{2}, tokens.size() + 1}) {
      EXPECT_EQ(events_of(tokens, group, in_thought), whole) << reply << " in pieces of " << size;
    }
  }
  return whole;
}

ReplyEvent answer(std::string text) {
  return {Kind::kText, std::move(text)};
}
ReplyEvent thought(std::string text) {
  return {Kind::kReasoning, std::move(text)};
}
using Events = std::vector<ReplyEvent>;

// The arguments of a reply that must be one call of f.
json arguments(const std::string& inner) {
  const auto events = parse("<|tool_call>call:f{" + inner + "}<tool_call|><|tool_response>");
  if (events.size() != 1 || events[0].kind != Kind::kToolCall || events[0].name != "f") return "no call";
  return json::parse(events[0].arguments);
}

TEST(ReplyParser, plain_text_is_the_answer) {
  EXPECT_EQ(parse("Hello <b>there</b>\n<turn|>"), Events{answer("Hello <b>there</b>\n")});
  EXPECT_EQ(parse(""), Events{});
}

TEST(ReplyParser, a_thought_comes_before_the_answer_without_its_label) {
  EXPECT_EQ(parse("<|channel>thought\nLet me\nsee.\n<channel|>Yes.<turn|>"),
            (Events{thought("Let me\nsee."), answer("Yes.")}));
}

TEST(ReplyParser, an_empty_thought_is_nothing) {
  EXPECT_EQ(parse("<|channel>thought\n<channel|>Yes."), Events{answer("Yes.")});
  EXPECT_EQ(parse("<|channel><channel|>Yes."), Events{answer("Yes.")});
  EXPECT_EQ(parse("<|channel>thought<channel|>Yes."), Events{answer("Yes.")});
}

TEST(ReplyParser, a_thought_without_its_label_is_still_a_thought) {
  EXPECT_EQ(parse("<|channel>though I<channel|>x"), (Events{thought("though I"), answer("x")}));
}

TEST(ReplyParser, a_thought_that_the_prompt_opened_goes_on) {
  EXPECT_EQ(parse("so\n<channel|>x", true), (Events{thought("so"), answer("x")}));
}

TEST(ReplyParser, a_thought_that_never_ends_is_given_whole) {
  EXPECT_EQ(parse("<|channel>thought\nhm\n"), Events{thought("hm\n")});
  EXPECT_EQ(parse("<|channel>thou"), Events{thought("thou")});
}

TEST(ReplyParser, stray_ends_of_thoughts_vanish_and_a_second_thought_is_one) {
  EXPECT_EQ(parse("a<channel|>b<channel|>"), Events{answer("ab")});
  EXPECT_EQ(parse("<|channel>thought\nA<channel|>b<|channel>thought\nC<channel|>d"),
            (Events{thought("A"), answer("b"), thought("C"), answer("d")}));
  EXPECT_EQ(parse("<|channel>thought\nA\n<|channel>thought\nB<channel|>c"),
            (Events{thought("A\nB"), answer("c")}));
}

TEST(ReplyParser, calls_come_with_their_arguments_and_what_was_written) {
  const auto events = parse(
      "<|channel>thought\nWeather?\n<channel|>I look.<|tool_call>call:get_weather{city:<|\"|>São \"Paulo\", "
      "{x}\n"
      "<|\"|>,days:3}<tool_call|><|tool_call>call:ping{}<tool_call|><|tool_response>");
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0], thought("Weather?"));
  EXPECT_EQ(events[1], answer("I look."));
  EXPECT_EQ(events[2].name, "get_weather");
  EXPECT_EQ(json::parse(events[2].arguments), (json{{"city", "São \"Paulo\", {x}\n"}, {"days", 3}}));
  EXPECT_EQ(events[2].text, "call:get_weather{city:<|\"|>São \"Paulo\", {x}\n<|\"|>,days:3}");
  EXPECT_EQ(events[3], (ReplyEvent{Kind::kToolCall, "call:ping{}", "ping", "{}"}));
}

TEST(ReplyParser, values_of_all_kinds_are_read) {
  EXPECT_EQ(
      arguments(R"(a:1,b:-2.5e3,c:true,d:false,e:null,f:{g:[1,[],{}]},h:[<|"|>x<|"|>,<|"|><|"|>])"),
      json::parse(R"({"a":1,"b":-2500.0,"c":true,"d":false,"e":null,"f":{"g":[1,[],{}]},"h":["x",""]})"));
}

TEST(ReplyParser, the_known_deviations_are_put_up_with) {
  EXPECT_EQ(arguments(R"(a=1,b = <|"|>x<|"|>)"), json::parse(R"({"a":1,"b":"x"})"));
  EXPECT_EQ(arguments(R"("a": "x\n\"y\" \u00e9\ud83d\ude00", 'b': 'it's')"),
            json::parse(R"({"a":"x\n\"y\" é😀","b":"it's"})"));
  EXPECT_EQ(arguments(R"(<|"|>a<|"|>:[True, None, "s", {"k": False}],)"),
            json::parse(R"({"a":[true,null,"s",{"k":false}]})"));
  EXPECT_EQ(arguments("city:New York,day:2026-01-02,big:1e999"),
            json::parse(R"({"city":"New York","day":"2026-01-02","big":"1e999"})"));
  EXPECT_EQ(arguments(" \n a : 1 \n"), json::parse(R"({"a":1})"));
}

TEST(ReplyParser, names_may_have_dots_and_dashes_and_text_before_them) {
  EXPECT_EQ(parse("<|tool_call>call:book-trip.v2{}<tool_call|>")[0].name, "book-trip.v2");
  EXPECT_EQ(parse("<|tool_call>ping{}<tool_call|>")[0].name, "ping");
  const auto events = parse("<|tool_call>I will call: it. call:ping{}<tool_call|>");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0], answer("I will call: it. "));
  EXPECT_EQ(events[1].name, "ping");
}

TEST(ReplyParser, a_call_may_end_with_the_reply_or_with_the_next_call) {
  for (const char* end : {"", "<|tool_response>", "<turn|>", "<eos>", "<|channel>"}) {
    const auto events = parse(std::string("<|tool_call>call:f{a:1}") + end);
    ASSERT_EQ(events.size(), 1u) << end;
    EXPECT_EQ(events[0].arguments, R"({"a":1})");
  }
  EXPECT_EQ(parse("<|tool_call>call:f{}<|tool_call>call:g{}").size(), 2u);
}

TEST(ReplyParser, half_a_call_is_text) {
  for (const std::string call :
       {"call:f{a:1", "call:f{a:<|\"|>x", "call:f", "", "call:{}", "call:f{a}", "call:f{:1}", "call:f{a:}",
        "call:f{}}", "call:f{a:<|\"|>call:rm{}", "call:f{a:\"call:rm{}"}) {
    EXPECT_EQ(parse("<|tool_call>" + call), Events{answer("<|tool_call>" + call)});
    EXPECT_EQ(parse("<|channel>thought\n<|tool_call>" + call), Events{thought("<|tool_call>" + call)});
  }
  EXPECT_EQ(parse("x<|tool_call>no<tool_call|>y"), Events{answer("x<|tool_call>no<tool_call|>y")});
}

TEST(ReplyParser, too_deep_a_call_is_text) {
  const std::string call = "<|tool_call>call:f{a:" + std::string(100'000, '[');
  EXPECT_EQ(events_of(tokens_of(call, 1000), 1), Events{answer(call)});
}

TEST(ReplyParser, a_call_in_a_thought_leaves_the_thought_open) {
  const auto events = parse("<|channel>thought\nA<|tool_call>call:f{}<tool_call|>B<channel|>c");
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[2], thought("B"));
  EXPECT_EQ(events[3], answer("c"));
}

TEST(ReplyParser, only_a_quote_ends_a_string_of_a_call) {
  EXPECT_EQ(arguments(R"(a:<|"|>}<tool_call|><|channel>,b:1<|"|>)"),
            (json{{"a", "}<tool_call|><|channel>,b:1"}}));
}

TEST(ReplyParser, control_tokens_in_ordinary_tokens_are_text) {
  const std::string spelled = "<|channel>thought\n<|tool_call>call:f{}<tool_call|><turn|>";
  EXPECT_EQ(events_of(std::vector<ReplyToken>{{kWord, spelled}}, 1), Events{answer(spelled)});
  const std::vector<ReplyToken> call{
      {3, "<|tool_call>"}, {kWord, "call:f{a:"}, {5, "<|\"|>"}, {kWord, "<|\"|>"},
      {5, "<|\"|>"},       {kWord, "}"},         {4, ""}};
  const auto events = events_of(call, 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(json::parse(events[0].arguments), (json{{"a", "<|\"|>"}}));
}

TEST(ReplyParser, text_comes_out_as_soon_as_it_is_certain) {
  ReplyParser parser(kTokens);
  const auto fed = [&](int id, std::string_view piece) {
    std::vector<ReplyEvent> events;
    parser.feed({id, piece}, events);
    return events;
  };
  EXPECT_EQ(fed(kWord, "a"), Events{answer("a")});
  EXPECT_EQ(fed(1, "<|channel>"), Events{});
  EXPECT_EQ(fed(kWord, "thought"), Events{});
  EXPECT_EQ(fed(kWord, "\nb"), Events{thought("b")});
  EXPECT_EQ(fed(kWord, " c\n"), Events{thought(" c")});
  EXPECT_EQ(fed(kWord, "d"), Events{thought("\nd")});
  EXPECT_EQ(fed(2, "\xC3\xA9<channel|>"), Events{thought("\xC3\xA9")}) << "bytes the decoder held back";
  EXPECT_EQ(fed(3, "<|tool_call>"), Events{});
  EXPECT_EQ(fed(kWord, "call:f{}"), Events{});
  EXPECT_EQ(fed(4, "<tool_call|>").size(), 1u);
}

TEST(ReplyParser, what_is_rendered_into_a_history_is_parsed_back_from_a_tokenizers_ids) {
  const Tokenizer& tokenizer = golden_tokenizer();
  const std::string reply =
      "<|channel>thought\nÀ la carte 🦊\n<channel|>Bon.<|tool_call>call:f{a:<|\"|>🦊<|\"|>}<tool_call|>";
  ReplyParser parser(ReplyTokens::of(tokenizer));
  StreamDecoder decoder(tokenizer);
  std::vector<ReplyEvent> events;
  for (const int id : tokenizer.encode(reply)) parser.feed({id, decoder.feed(id)}, events);
  parser.finish(events);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0], thought("À la carte 🦊"));
  EXPECT_EQ(events[1], answer("Bon."));
  EXPECT_EQ(events[2].arguments, R"({"a":"🦊"})");
}

// What is left of a text without marks, labels and line breaks.
std::string bones(std::string text) {
  std::vector<std::string_view> all_gone(std::begin(kMarks), std::end(kMarks));
  all_gone.push_back("thought");
  for (const std::string_view gone : all_gone) {
    for (size_t at; (at = text.find(gone)) != std::string::npos;) text.erase(at, gone.size());
  }
  std::erase_if(text, [](char c) { return c == '\n'; });
  return text;
}

TEST(ReplyParser, whatever_is_fed_in_whatever_groups_gives_the_same_events_and_all_of_the_text) {
  static constexpr std::string_view kPieces[] = {
      "call:", "f", "{",     "}",       "a:", "1",    ",",  "[",    "]",         "\"",      "'", "\\",
      "x=",    " ", "{a:1}", "call:f{", "é",  "None", "\n", "thou", "thought\n", "thought", "q"};
  std::mt19937 random(7);
  const auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const int replies = test::rounds(25000);
  int calls = 0;
  for (int reply = 0; reply < replies; ++reply) {
    std::vector<ReplyToken> tokens;
    std::string all;
    const size_t count = pick(40);
    while (tokens.size() < count) {
      if (pick(3) == 0) {
        const size_t control = pick(8);
        tokens.push_back({static_cast<int>(control) + 1, kMarks[control]});
      } else {
        tokens.push_back({kWord, kPieces[pick(std::size(kPieces))]});
      }
      all += tokens.back().piece;
    }
    const bool in_thought = pick(4) == 0;
    const auto events = events_of(tokens, 1, in_thought);
    ASSERT_EQ(events_of(tokens, 2, in_thought), events) << all;
    ASSERT_EQ(events_of(tokens, 100, in_thought), events) << all;
    std::vector<ReplyToken> bytes;
    for (const ReplyToken& token : tokens) {
      if (token.id != kWord) bytes.push_back(token);
      for (size_t i = 0; token.id == kWord && i < token.piece.size(); ++i) {
        bytes.push_back({kWord, token.piece.substr(i, 1)});
      }
    }
    ASSERT_EQ(events_of(bytes, 1, in_thought), events) << all;
    std::string given;
    for (const ReplyEvent& event : events) {
      given += event.text;
      calls += event.kind == Kind::kToolCall;
    }
    ASSERT_EQ(bones(given), bones(all)) << all;
  }
  EXPECT_GT(calls, replies / 500) << "the pieces should make calls now and then";
}

}  // namespace
}  // namespace slip::text
