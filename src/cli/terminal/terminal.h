// Terminal: the keyboard and the screen of an interactive command. For its lifetime keys come one at a time
// and unechoed; output works as usual. Whatever way the program ends (also SIGTERM and SIGHUP), the terminal
// is given back as it was.
//
// Ctrl-C is a key like any other, except while Interruptible is alive: then it is the signal it always is, so
// that a reply can be stopped. Keys pressed between lines wait for the next one.
#pragma once

#include <termios.h>

#include <string>
#include <string_view>

#include "cli/terminal/line_editor.h"
#include "cli/terminal/line_layout.h"

namespace slip::cli {

class Terminal {
 public:
  enum class Outcome {
    kLine,
    kEnd,        // Ctrl-D on an empty line, or the terminal is gone
    kInterrupt,  // Ctrl-C on an empty line; on another it throws the line away
  };

  /// Whether stdin and stdout are a terminal that can be drawn on.
  static bool usable();

  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  class Interruptible {
   public:
    /// Null: nothing happens.
    explicit Interruptible(Terminal* terminal) : terminal_(terminal) {
      if (terminal_ != nullptr) terminal_->keys_are_signals(true);
    }
    ~Interruptible() {
      if (terminal_ != nullptr) terminal_->keys_are_signals(false);
    }
    Interruptible(const Interruptible&) = delete;
    Interruptible& operator=(const Interruptible&) = delete;

   private:
    Terminal* const terminal_;
  };

  /// Lets a person write a line; its history is kept.
  Outcome read_line(std::string_view prompt, std::string& line);

 private:
  void keys_are_signals(bool on);
  void draw(std::string_view prompt);
  void leave_line(std::string_view prompt);
  bool fill();

  termios raw_ = {};
  LineEditor editor_;
  std::string input_;  // bytes read and not used yet
  int drawn_row_ = 0;  // the cursor's row in what was drawn last
};

}  // namespace slip::cli
