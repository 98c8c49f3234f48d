// A reply told apart while it comes.
#include "session/reply.h"

#include <gtest/gtest.h>

#include "engine/reply_text.h"
#include "session/reply_stream.h"
#include "support/scripted_model.h"

namespace slip::session {
namespace {

using engine::FinishReason;
using text::ReplyEvent;
using Kind = ReplyEvent::Kind;

/// What a chat reply becomes on its way out, as the engine sends it.
class Sent {
 public:
  explicit Sent(const test::Script& script, std::vector<std::string> stops = {})
      : vocabulary_(script),
        tokenizer_(text::Tokenizer::parse(vocabulary_.tokenizer_json(), "scripted")),
        text_(chat_reply_stream(tokenizer_), std::move(stops)) {
    for (size_t i = 0; i < script.size() && !text_.stopped(); ++i) {
      text_.begin();
      text_.push(test::kScriptBegin + static_cast<int>(i));
      send({.token = test::kScriptBegin + static_cast<int>(i),
            .finish = text_.stopped() ? FinishReason::kStopString : FinishReason::kNone});
    }
    if (text_.stopped()) return;
    text_.begin();
    text_.finish();
    send({.finish = FinishReason::kStopId});
  }
  std::vector<ReplyEvent> events;
  std::vector<engine::Landing> landings;
  Reply reply;

 private:
  void send(engine::Delta delta) {
    delta.events = text_.events();
    delta.landing = text_.landing();
    reply.on_delta(delta);
    landings.push_back(delta.landing);
    for (const ReplyEvent& event : delta.events) {
      if (!events.empty() && events.back().kind == event.kind && event.kind != Kind::kToolCall) {
        events.back().text += event.text;
      } else {
        events.push_back(event);
      }
    }
  }

  test::ScriptedVocabulary vocabulary_;
  text::Tokenizer tokenizer_;
  engine::ReplyText text_;
};

const test::Script kCalling = {"<|channel>",   "thought",   "<0x0A>",       "deep",
                               "<channel|>",   "Wait",      "<|tool_call>", "call:go{steps:3}",
                               "<tool_call|>", "\u2581done"};

TEST(Reply, tells_reasoning_answer_and_calls_apart) {
  const Sent sent(kCalling);
  EXPECT_EQ(sent.reply.reasoning, "deep");
  EXPECT_EQ(sent.reply.text, "Wait done");
  ASSERT_EQ(sent.reply.calls.size(), 1u);
  EXPECT_EQ(sent.reply.calls[0].name, "go");
  EXPECT_EQ(sent.reply.calls[0].arguments, R"({"steps":3})");
}

TEST(Reply, keeps_the_order_when_answer_text_is_held_back) {
  const Sent sent(kCalling, {"Wait!", "it..."});  // "Wait" could begin a stop string until the call is over
  std::vector<Kind> kinds;
  for (const ReplyEvent& event : sent.events) kinds.push_back(event.kind);
  EXPECT_EQ(kinds, (std::vector{Kind::kReasoning, Kind::kText, Kind::kToolCall, Kind::kText}));
  EXPECT_EQ(sent.events[1].text, "Wait");
}

TEST(Reply, stop_strings_count_in_the_answer_only) {
  EXPECT_EQ(Sent(kCalling, {"deep"}).reply.text, "Wait done");
  const Sent stopped(kCalling, {"ait"});
  EXPECT_EQ(stopped.reply.text, "W");
  EXPECT_TRUE(stopped.reply.calls.empty());
}

TEST(Reply, a_thought_without_an_end_is_all_given_out) {
  const Sent sent({"<|channel>", "thought", "<0x0A>", "hm\n"});
  EXPECT_EQ(sent.reply.reasoning, "hm\n");
  EXPECT_EQ(sent.reply.text, "");
}

TEST(Reply, bytes_of_all_tokens_add_up_to_the_text_of_their_place) {
  for (const std::vector<std::string>& stops : {std::vector<std::string>{}, {"Wait!"}, {"it"}, {"deepen"}}) {
    const Sent sent(kCalling, stops);
    size_t text = 0, reasoning = 0;
    for (const engine::Landing& landing : sent.landings) {
      const auto bytes = static_cast<size_t>(landing.bytes);
      if (landing.place == text::Place::kText) text += bytes;
      if (landing.place == text::Place::kReasoning) reasoning += bytes;
      EXPECT_TRUE(landing.place != text::Place::kToolCall || bytes == 0);
    }
    EXPECT_EQ(text, sent.reply.text.size());
    EXPECT_EQ(reasoning, sent.reply.reasoning.size());
  }
}

TEST(Reply, tokens_of_a_call_say_which_call_they_are_in) {
  const Sent sent(kCalling);
  EXPECT_EQ(sent.landings[7].place, text::Place::kToolCall);
  EXPECT_EQ(sent.landings[7].call, 0);
  EXPECT_EQ(sent.landings[4].place, text::Place::kNone);  // <channel|>
}

}  // namespace
}  // namespace slip::session
