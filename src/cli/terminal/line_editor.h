// LineEditor: a line of input being typed, as a pure state: bytes from the keyboard go in, text and cursor
// come out. Knows the keys people expect of a shell (arrows, Home, End, Ctrl-A, E, B, F, K, U, W, Y, D, L, P,
// N, words with Alt or Ctrl), history, pasted text of several lines (bracketed paste) and Alt-Enter for a
// line break. Drawing and reading are somebody else's: line_layout.h and terminal.h.
//
// Invariants: the text is valid UTF-8 (bytes that are none become U+FFFD), the cursor stands between two
// clusters (display_width.h). Sequences may be cut anywhere between two feeds. Cost: linear in the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace slip::cli {

class LineEditor {
 public:
  enum class Signal {
    kNone,
    kSubmit,       // Enter: take() has the line
    kEnd,          // Ctrl-D on an empty line
    kInterrupt,    // Ctrl-C
    kClearScreen,  // Ctrl-L
  };

  /// One byte from the keyboard.
  Signal feed(char byte);

  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }
  void move_to_end() { cursor_ = text_.size(); }

  /// The line, which becomes the newest of the history (unless it is empty or the same again), and a new one.
  std::string take();
  /// Throws the line away.
  void clear();

 private:
  enum class State { kPlain, kEscape, kSequence, kKeypad, kPaste };

  Signal control(char byte);
  void after_escape(char byte);
  void sequence(std::string_view parameters, char final);
  void arrow(char final, bool by_word);
  void paste(char byte);
  void character(char byte);

  void insert(std::string_view text);
  void erase(size_t begin, size_t end);
  void kill(size_t begin, size_t end);
  void left();
  void right();
  void up();
  void down();
  void recall(size_t index);
  size_t line_begin() const;
  size_t line_end() const;
  size_t word_before() const;
  size_t word_after() const;
  /// The place in the line [begin, end) that is nearest to a column.
  size_t at_column(size_t begin, size_t end, int column) const;

  std::string text_;
  size_t cursor_ = 0;
  std::string killed_;  // for Ctrl-Y

  std::vector<std::string> history_;
  size_t recalled_ = 0;  // history_.size(): the line being written, which is kept in draft_ meanwhile
  std::string draft_;

  State state_ = State::kPlain;
  std::string held_;  // of an escape sequence, a paste or a character so far
};

}  // namespace slip::cli
