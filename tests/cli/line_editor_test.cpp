// The line editor as a state: keys in, text and cursor out. No terminal is involved.
#include "cli/terminal/line_editor.h"

#include <gtest/gtest.h>

#include "cli/terminal/display_width.h"
#include "cli/terminal/line_layout.h"
#include "text/utf8.h"

namespace slip::cli {
namespace {

using Signal = LineEditor::Signal;

constexpr const char* kUp = "\x1b[A";
constexpr const char* kDown = "\x1b[B";
constexpr const char* kRight = "\x1b[C";
constexpr const char* kLeft = "\x1b[D";

Signal type(LineEditor& editor, std::string_view keys) {
  Signal last = Signal::kNone;
  for (const char key : keys) last = editor.feed(key);
  return last;
}

/// The text with a bar where the cursor is.
std::string shown(const LineEditor& editor) {
  std::string text = editor.text();
  return text.insert(editor.cursor(), "|");
}

std::string after(std::string_view keys) {
  LineEditor editor;
  type(editor, keys);
  return shown(editor);
}

TEST(LineEditor, inserts_where_the_cursor_is) {
  EXPECT_EQ(after("helo"), "helo|");
  EXPECT_EQ(after(std::string("helo") + kLeft + "l"), "hell|o");
  EXPECT_EQ(after(std::string("ab") + kLeft + kLeft + kLeft + "x"), "x|ab");
  EXPECT_EQ(after(std::string("ab") + kRight + "c"), "abc|");
}

TEST(LineEditor, moves_to_the_ends_of_the_line) {
  EXPECT_EQ(after("ab\x01x"), "x|ab");
  EXPECT_EQ(after("ab\x01\x05x"), "abx|");
  EXPECT_EQ(after("ab\x1b[Hx"), "x|ab");
  EXPECT_EQ(after("ab\x1b[H\x1b[Fx"), "abx|");
  EXPECT_EQ(after("ab\x1b[1~x\x1b[4~y"), "xaby|");
  EXPECT_EQ(after("ab\x1bOHx\x1bOFy"), "xaby|");
}

TEST(LineEditor, deletes_before_at_and_around_the_cursor) {
  EXPECT_EQ(after("abc\x7f"), "ab|");
  EXPECT_EQ(after("abc\x08"), "ab|");
  EXPECT_EQ(after("\x7f"), "|");
  EXPECT_EQ(after("abc\x01\x1b[3~"), "|bc");
  EXPECT_EQ(after("abc\x01\x04"), "|bc");
  EXPECT_EQ(after("abc\x1b[3~"), "abc|");
}

TEST(LineEditor, kills_to_the_ends_and_words_and_brings_them_back) {
  EXPECT_EQ(after("one two\x15"), "|");
  EXPECT_EQ(after("one two\x01\x0b"), "|");
  EXPECT_EQ(after("one two  \x17"), "one |");
  EXPECT_EQ(after("one two\x17\x01\x19"), "two|one ");
  EXPECT_EQ(after("one two\x01\x1b"
                  "d\x05\x19"),
            " twoone|");
  EXPECT_EQ(after("one two\x1b\x7f"), "one |");
}

TEST(LineEditor, moves_by_words) {
  EXPECT_EQ(after("one two\x1b"
                  "b|"),
            "one ||two");
  EXPECT_EQ(after("one two\x1b[1;5D\x1b[1;5D"), "|one two");
  EXPECT_EQ(after("one two\x01\x1b[1;5C"), "one| two");
  EXPECT_EQ(after("one two\x01\x1b"
                  "f\x1b"
                  "f"),
            "one two|");
}

TEST(LineEditor, takes_whole_characters_whatever_their_length) {
  EXPECT_EQ(after("\u00e4\u4f60\U0001F600\x7f"), "\u00e4\u4f60|");
  EXPECT_EQ(after(std::string("\u00e4\u4f60") + kLeft + "\x7f"), "|\u4f60");
  EXPECT_EQ(after("ae\u0308\x7f"), "a|");  // e with a combining mark is one
  EXPECT_EQ(after(std::string("\U0001F468\u200D\U0001F469") + kLeft), "|\U0001F468\u200D\U0001F469");
}

TEST(LineEditor, makes_valid_text_of_any_bytes) {
  EXPECT_EQ(after("a\xff"
                  "b"),
            "a\uFFFDb|");
  EXPECT_EQ(after("\xe4\xbd"
                  "b"),
            "\uFFFDb|");
  uint32_t state = 1;
  LineEditor editor;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525 + 1013904223;
    const char byte = static_cast<char>(state >> 24);
    editor.feed(byte);
    ASSERT_TRUE(text::is_valid_utf8(editor.text()));
    ASSERT_LE(editor.cursor(), editor.text().size());
    ASSERT_TRUE(text::is_valid_utf8(std::string_view(editor.text()).substr(editor.cursor())));
  }
}

TEST(LineEditor, tells_enter_end_and_interrupt_apart) {
  LineEditor editor;
  EXPECT_EQ(type(editor, "\x04"), Signal::kEnd);
  EXPECT_EQ(type(editor, "a\x01\x04"), Signal::kNone);
  EXPECT_EQ(type(editor, "\x03"), Signal::kInterrupt);
  EXPECT_EQ(type(editor, "\x0c"), Signal::kClearScreen);
  EXPECT_EQ(type(editor, "b\r"), Signal::kSubmit);
  EXPECT_EQ(editor.take(), "b");
  EXPECT_EQ(editor.text(), "");
  EXPECT_EQ(type(editor, "\n"), Signal::kSubmit);
}

TEST(LineEditor, walks_through_history_and_keeps_what_was_being_written) {
  LineEditor editor;
  for (const char* line : {"first", "second", "second"}) {
    type(editor, line);
    editor.take();
  }
  type(editor, "dra");
  type(editor, kUp);
  EXPECT_EQ(shown(editor), "second|");
  type(editor, kUp);
  EXPECT_EQ(shown(editor), "first|");  // the same twice is kept once
  type(editor, kUp);
  EXPECT_EQ(shown(editor), "first|");
  type(editor, std::string(kDown) + kDown);
  EXPECT_EQ(shown(editor), "dra|");
  type(editor, std::string("\x10") + "!");
  EXPECT_EQ(editor.take(), "second!");
  type(editor, kUp);
  EXPECT_EQ(shown(editor), "second!|");
}

TEST(LineEditor, a_paste_of_several_lines_is_one_text) {
  LineEditor editor;
  EXPECT_EQ(type(editor, "a\x1b[200~x\r\ny\rz\x03\x1b[B\x1b[201~b"), Signal::kNone);
  EXPECT_EQ(shown(editor), "ax\ny\nz[Bb|");
  EXPECT_EQ(type(editor, "\r"), Signal::kSubmit);
}

TEST(LineEditor, moves_between_the_lines_of_a_text) {
  LineEditor editor;
  type(editor, "long one\x1b\rb\x1b\rthird");
  EXPECT_EQ(shown(editor), "long one\nb\nthird|");
  type(editor, kUp);
  EXPECT_EQ(shown(editor), "long one\nb|\nthird");
  type(editor, kUp);
  EXPECT_EQ(shown(editor), "l|ong one\nb\nthird");
  type(editor, std::string("\x05") + kDown + kDown);
  EXPECT_EQ(shown(editor), "long one\nb\nt|hird");
  type(editor, "\x01\x7f");
  EXPECT_EQ(shown(editor), "long one\nb|third");
  type(editor, "\x01\x0b\x0b");
  EXPECT_EQ(shown(editor), "long one\n|");
}

TEST(LineEditor, ignores_keys_it_does_not_know) {
  EXPECT_EQ(after("a\x1b[15~\x1b[5~\x1b[99;99;99R\x1bQ\x1bOP\x1a"
                  "b"),
            "ab|");
  EXPECT_EQ(after("\x1b[" + std::string(100, '1') + "a"), std::string(67, '1') + "a|");
}

TEST(DisplayWidth, counts_columns_as_terminals_do) {
  EXPECT_EQ(columns_of("abc"), 3);
  EXPECT_EQ(columns_of("\u00e4"), 1);
  EXPECT_EQ(columns_of("e\u0308"), 1);
  EXPECT_EQ(columns_of("\u4f60\u597d"), 4);
  EXPECT_EQ(columns_of("\U0001F600"), 2);
  EXPECT_EQ(columns_of("\U0001F468\u200D\U0001F469"), 2);
  EXPECT_EQ(columns_of("\uAC00\uFF21"), 4);
  EXPECT_EQ(columns_of("\xff"), 1);
  EXPECT_EQ(columns_of(""), 0);
}

TEST(LineLayout, puts_the_cursor_where_the_text_is) {
  const LineLayout layout = lay_out("> ", "h\u4f60o", 4, {80, 24});
  EXPECT_EQ(layout.rows, std::vector<std::string>{"> h\u4f60o"});
  EXPECT_EQ(layout.cursor_row, 0);
  EXPECT_EQ(layout.cursor_column, 5);
}

TEST(LineLayout, wraps_and_indents) {
  const LineLayout layout = lay_out("> ", "abcdef\ngh", 9, {6, 24});
  EXPECT_EQ(layout.rows, (std::vector<std::string>{"> abcd", "ef", "  gh"}));
  EXPECT_EQ(layout.cursor_row, 2);
  EXPECT_EQ(layout.cursor_column, 4);
  // A wide character does not fit in one column, and a cursor behind a full row stands on the next.
  EXPECT_EQ(lay_out("> ", "abc\u4f60", 0, {6, 24}).rows, (std::vector<std::string>{"> abc", "\u4f60"}));
  const LineLayout full = lay_out("> ", "abcd", 4, {6, 24});
  EXPECT_EQ(full.rows.size(), 2u);
  EXPECT_EQ(full.cursor_row, 1);
  EXPECT_EQ(full.cursor_column, 0);
}

TEST(LineLayout, shows_the_part_around_the_cursor_of_a_text_that_is_too_high) {
  std::string text = "0";
  for (int i = 1; i < 10; ++i) text += "\n" + std::to_string(i);
  const LineLayout end = lay_out("> ", text, text.size(), {20, 4});
  EXPECT_EQ(end.rows, (std::vector<std::string>{"  6", "  7", "  8", "  9"}));
  EXPECT_EQ(end.cursor_row, 3);
  const LineLayout begin = lay_out("> ", text, 0, {20, 4});
  EXPECT_EQ(begin.rows, (std::vector<std::string>{"> 0", "  1", "  2", "  3"}));
  EXPECT_EQ(begin.cursor_row, 0);
}

}  // namespace
}  // namespace slip::cli
