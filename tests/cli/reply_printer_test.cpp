// A reply as people read it.
#include "cli/terminal/reply_printer.h"

#include <gtest/gtest.h>

namespace slip::cli {
namespace {

using text::ReplyEvent;
using Kind = ReplyEvent::Kind;

const std::vector<ReplyEvent> kCalling = {
    {Kind::kReasoning, "deep"},
    {Kind::kText, "Wait"},
    {Kind::kToolCall, "call:go{steps:3}", "go", R"({"steps":3})"},
    {Kind::kText, " done"},
};

std::string printed(const std::vector<ReplyEvent>& events, ReplyPrinter::Options options) {
  ReplyPrinter printer(options);
  std::string text = printer.print(events);
  return text.append(printer.end());
}

TEST(ReplyPrinter, puts_thoughts_and_calls_on_lines_of_their_own) {
  EXPECT_EQ(printed(kCalling, {.terminal = false, .thinking = true}),
            "deep\nWait\n[calls go {\"steps\":3}]\n done\n");
  EXPECT_EQ(printed(kCalling, {.terminal = true, .thinking = true}),
            "\x1b[2mdeep\x1b[0m\nWait\n[calls go {\"steps\":3}]\n done\n");
}

TEST(ReplyPrinter, counts_what_it_hides) {
  ReplyPrinter printer({.terminal = false, .thinking = false});
  EXPECT_EQ(printer.print(kCalling), "Wait\n[calls go {\"steps\":3}]\n done");
  EXPECT_EQ(printer.hidden(), 4u);
}

TEST(ReplyPrinter, lets_no_control_character_reach_a_terminal) {
  const std::vector<ReplyEvent> events = {{Kind::kText, "a\x1b[2J\tb\nc\x07"}};
  EXPECT_EQ(printed(events, {.terminal = true}), "a\\x1b[2J\tb\nc\\x07\n");
  EXPECT_EQ(printed(events, {.terminal = false}), "a\x1b[2J\tb\nc\x07\n");
}

TEST(ReplyPrinter, an_empty_reply_is_an_empty_line) {
  EXPECT_EQ(printed({}, {}), "\n");
}

}  // namespace
}  // namespace slip::cli
