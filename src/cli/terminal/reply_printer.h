// ReplyPrinter: a reply as people read it. The answer is printed as it is; reasoning stands before it, dimmed
// on a terminal, or is left out and counted; a tool call gets a line of its own. Never loses text: what is
// not printed is counted in hidden().
//
// On a terminal control characters (other than tab and line break) are spelled out, because a model may write
// any, and a terminal would obey them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "text/reply_event.h"

namespace slip::cli {

class ReplyPrinter {
 public:
  struct Options {
    bool terminal = false;
    bool thinking = false;  // reasoning is printed
  };
  /// Puts colours around a piece of text, or leaves it as it is. Called with nothing when there is no text.
  using Paint = std::function<std::string(std::string_view)>;

  explicit ReplyPrinter(Options options) : options_(options) {}

  /// The text to print for these events. `paint` may be empty.
  std::string print(std::span<const text::ReplyEvent> events, const Paint& paint = {});
  /// The line break that is missing at the end of the reply; an empty reply is an empty line.
  std::string_view end() const { return at_line_start_ && printed_ ? "" : "\n"; }

  /// Bytes of reasoning that were left out.
  size_t hidden() const { return hidden_; }

 private:
  void append(std::string_view text, bool dim, const Paint& paint, std::string& out);
  void break_line(std::string& out);

  const Options options_;
  bool at_line_start_ = true;
  bool printed_ = false;
  bool in_reasoning_ = false;
  size_t hidden_ = 0;
};

}  // namespace slip::cli
