// A reply told apart while it comes, and printed.
#include "cli/reply.h"

#include <gtest/gtest.h>

#include "cli/reply_printer.h"
#include "cli/scripted_model.h"
#include "engine/stop_matcher.h"

namespace slip::cli {
namespace {

using engine::FinishReason;
using text::ReplyEvent;
using Kind = ReplyEvent::Kind;

/// Feeds a Reply as the engine does: text through the stop matcher, then the delta.
class Fed {
 public:
  explicit Fed(const test::Script& script, std::vector<std::string> stops = {})
      : vocabulary_(script),
        tokenizer_(text::Tokenizer::parse(vocabulary_.tokenizer_json(), "scripted")),
        stream_(reply_.stream(tokenizer_)),
        matcher_(std::move(stops)) {
    for (size_t i = 0; i < script.size() && !matcher_.matched(); ++i)
      push(test::kScriptBegin + static_cast<int>(i));
    if (!matcher_.matched()) close();
  }
  std::vector<ReplyEvent> events;
  const Reply& reply() const { return reply_; }

 private:
  void push(int token) {
    std::string piece;
    stream_->push(token, piece);
    const std::string text(matcher_.push(piece));
    take({.token = token,
          .text = text,
          .finish = matcher_.matched() ? FinishReason::kStopString : FinishReason::kNone});
  }
  void close() {
    std::string piece;
    stream_->finish(piece);
    std::string text(matcher_.push(piece));
    if (!matcher_.matched()) text += matcher_.finish();
    take({.text = text, .finish = FinishReason::kStopId});
  }
  void take(const engine::Delta& delta) {
    for (const ReplyEvent& event : reply_.take(delta)) {
      if (!events.empty() && events.back().kind == event.kind && event.kind != Kind::kToolCall) {
        events.back().text += event.text;
      } else {
        events.push_back(event);
      }
    }
  }

  test::ScriptedVocabulary vocabulary_;
  text::Tokenizer tokenizer_;
  Reply reply_;
  std::unique_ptr<engine::TextStream> stream_;
  engine::StopMatcher matcher_;
};

const test::Script kCalling = {"<|channel>",   "thought",   "<0x0A>",       "deep",
                               "<channel|>",   "Wait",      "<|tool_call>", "call:go{steps:3}",
                               "<tool_call|>", "\u2581done"};

TEST(Reply, tells_reasoning_answer_and_calls_apart) {
  const Fed fed(kCalling);
  EXPECT_EQ(fed.reply().reasoning(), "deep");
  EXPECT_EQ(fed.reply().answer(), "Wait done");
  ASSERT_EQ(fed.reply().calls().size(), 1u);
  EXPECT_EQ(fed.reply().calls()[0].name, "go");
  EXPECT_EQ(fed.reply().calls()[0].arguments["steps"], 3);
}

TEST(Reply, keeps_the_order_when_answer_text_is_held_back) {
  const Fed fed(kCalling, {"Wait!", "it..."});  // "Wait" could begin a stop string until the call is over
  std::vector<Kind> kinds;
  for (const ReplyEvent& event : fed.events) kinds.push_back(event.kind);
  EXPECT_EQ(kinds, (std::vector{Kind::kReasoning, Kind::kAnswer, Kind::kToolCall, Kind::kAnswer}));
  EXPECT_EQ(fed.events[1].text, "Wait");
}

TEST(Reply, stop_strings_count_in_the_answer_only) {
  EXPECT_EQ(Fed(kCalling, {"deep"}).reply().answer(), "Wait done");
  const Fed stopped(kCalling, {"ait"});
  EXPECT_EQ(stopped.reply().answer(), "W");
  EXPECT_TRUE(stopped.reply().calls().empty());
}

TEST(Reply, a_thought_without_an_end_is_all_given_out) {
  const Fed fed({"<|channel>", "thought", "<0x0A>", "hm\n"});
  EXPECT_EQ(fed.reply().reasoning(), "hm\n");
  EXPECT_EQ(fed.reply().answer(), "");
}

std::string printed(const std::vector<ReplyEvent>& events, ReplyPrinter::Options options) {
  ReplyPrinter printer(options);
  std::string text = printer.print(events);
  return text.append(printer.end());
}

TEST(ReplyPrinter, puts_thoughts_and_calls_on_lines_of_their_own) {
  const Fed fed(kCalling);
  EXPECT_EQ(printed(fed.events, {.terminal = false, .thinking = true}),
            "deep\nWait\n[calls go {\"steps\":3}]\n done\n");
  EXPECT_EQ(printed(fed.events, {.terminal = true, .thinking = true}),
            "\x1b[2mdeep\x1b[0m\nWait\n[calls go {\"steps\":3}]\n done\n");
}

TEST(ReplyPrinter, counts_what_it_hides) {
  const Fed fed(kCalling);
  ReplyPrinter printer({.terminal = false, .thinking = false});
  EXPECT_EQ(printer.print(fed.events), "Wait\n[calls go {\"steps\":3}]\n done");
  EXPECT_EQ(printer.hidden(), 4u);
}

TEST(ReplyPrinter, lets_no_control_character_reach_a_terminal) {
  const std::vector<ReplyEvent> events = {{Kind::kAnswer, "a\x1b[2J\tb\nc\x07"}};
  EXPECT_EQ(printed(events, {.terminal = true}), "a\\x1b[2J\tb\nc\\x07\n");
  EXPECT_EQ(printed(events, {.terminal = false}), "a\x1b[2J\tb\nc\x07\n");
}

TEST(ReplyPrinter, an_empty_reply_is_an_empty_line) {
  EXPECT_EQ(printed({}, {}), "\n");
}

}  // namespace
}  // namespace slip::cli
