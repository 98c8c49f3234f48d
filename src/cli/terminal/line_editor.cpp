#include "cli/terminal/line_editor.h"

#include <algorithm>
#include <utility>

#include "cli/terminal/display_width.h"
#include "text/utf8.h"

namespace slip::cli {
namespace {

constexpr std::string_view kPasteEnd = "\x1b[201~";
constexpr size_t kLongestSequence = 32;
constexpr size_t kMostHistory = 1000;

constexpr char control_key(char letter) {
  return static_cast<char>(letter - 'A' + 1);
}

/// Only white space ends a word, as in a shell.
bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t';
}

size_t expected_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) return 1;
  return byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 0;
}

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

/// Valid UTF-8 with \n as the line break and no other control characters than tabs.
std::string cleaned(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = text::character_length(text.substr(i));
    const char c = text[i];
    if (c == '\r') {
      if (i + 1 == text.size() || text[i + 1] != '\n') out += '\n';
    } else if (length == 0) {
      out += text::kReplacement;
    } else if (length > 1 || static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') {
      if (c != '\x7f') out += text.substr(i, length);
    }
    i += std::max<size_t>(length, 1);
  }
  return out;
}

}  // namespace

LineEditor::Signal LineEditor::feed(char byte) {
  switch (state_) {
    case State::kPaste: paste(byte); return Signal::kNone;
    case State::kEscape: after_escape(byte); return Signal::kNone;
    case State::kKeypad:
      state_ = State::kPlain;
      arrow(byte, false);
      return Signal::kNone;
    case State::kSequence:
      if (byte >= 0x40 && byte <= 0x7e) {
        state_ = State::kPlain;
        sequence(std::exchange(held_, {}), byte);
      } else if (held_.size() < kLongestSequence) {
        held_ += byte;
      } else {  // no terminal sends that
        held_.clear();
        state_ = State::kPlain;
      }
      return Signal::kNone;
    case State::kPlain: break;
  }
  if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) return control(byte);
  character(byte);
  return Signal::kNone;
}

LineEditor::Signal LineEditor::control(char byte) {
  held_.clear();  // half a character
  switch (byte) {
    case '\r':
    case '\n': return Signal::kSubmit;
    case '\x1b': state_ = State::kEscape; break;
    case 0x7f:
    case control_key('H'): erase(cluster_before(text_, cursor_), cursor_); break;
    case control_key('A'): cursor_ = line_begin(); break;
    case control_key('B'): left(); break;
    case control_key('C'): return Signal::kInterrupt;
    case control_key('D'):
      if (text_.empty()) return Signal::kEnd;
      if (cursor_ < text_.size())
        erase(cursor_, cursor_ + first_cluster(std::string_view(text_).substr(cursor_)).bytes);
      break;
    case control_key('E'): cursor_ = line_end(); break;
    case control_key('F'): right(); break;
    case control_key('K'): {
      const size_t end = line_end();
      kill(cursor_, end == cursor_ ? std::min(end + 1, text_.size()) : end);  // at its end: the break
      break;
    }
    case control_key('L'): return Signal::kClearScreen;
    case control_key('N'): down(); break;
    case control_key('P'): up(); break;
    case control_key('U'): kill(line_begin(), cursor_); break;
    case control_key('W'): kill(word_before(), cursor_); break;
    case control_key('Y'): insert(killed_); break;
    case '\t': insert("\t"); break;
    default: break;
  }
  return Signal::kNone;
}

void LineEditor::after_escape(char byte) {
  state_ = State::kPlain;
  switch (byte) {
    case '[': state_ = State::kSequence; break;
    case 'O': state_ = State::kKeypad; break;
    case '\x1b': state_ = State::kEscape; break;
    case '\r':
    case '\n': insert("\n"); break;
    case 'b': cursor_ = word_before(); break;
    case 'f': cursor_ = word_after(); break;
    case 'd': kill(cursor_, word_after()); break;
    case 0x7f: kill(word_before(), cursor_); break;
    default: break;
  }
}

void LineEditor::sequence(std::string_view parameters, char final) {
  if (final != '~') return arrow(final, parameters.ends_with(";5") || parameters.ends_with(";3"));
  if (parameters == "200") {
    state_ = State::kPaste;
  } else if (parameters == "1" || parameters == "7") {
    cursor_ = line_begin();
  } else if (parameters == "4" || parameters == "8") {
    cursor_ = line_end();
  } else if (parameters == "3" && cursor_ < text_.size()) {
    erase(cursor_, cursor_ + first_cluster(std::string_view(text_).substr(cursor_)).bytes);
  }
}

void LineEditor::arrow(char final, bool by_word) {
  switch (final) {
    case 'A': up(); break;
    case 'B': down(); break;
    case 'C': by_word ? void(cursor_ = word_after()) : right(); break;
    case 'D': by_word ? void(cursor_ = word_before()) : left(); break;
    case 'H': cursor_ = line_begin(); break;
    case 'F': cursor_ = line_end(); break;
    default: break;
  }
}

void LineEditor::paste(char byte) {
  held_ += byte;
  if (!held_.ends_with(kPasteEnd)) return;
  held_.resize(held_.size() - kPasteEnd.size());
  state_ = State::kPlain;
  insert(cleaned(std::exchange(held_, {})));
}

void LineEditor::character(char byte) {
  if (!held_.empty() && !continues(byte)) {
    insert(text::kReplacement);
    held_.clear();
  }
  held_ += byte;
  if (text::character_length(held_) > 0) return insert(std::exchange(held_, {}));
  if (held_.size() < expected_length(held_.front())) return;
  insert(text::kReplacement);
  held_.clear();
}

std::string LineEditor::take() {
  std::string line = text_;
  if (!line.empty() && (history_.empty() || history_.back() != line)) history_.push_back(line);
  if (history_.size() > kMostHistory) history_.erase(history_.begin());
  clear();
  return line;
}

void LineEditor::clear() {
  text_.clear();
  draft_.clear();
  cursor_ = 0;
  recalled_ = history_.size();
}

void LineEditor::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineEditor::erase(size_t begin, size_t end) {
  text_.erase(begin, end - begin);
  cursor_ = begin;
}

void LineEditor::kill(size_t begin, size_t end) {
  if (begin == end) return;
  killed_ = text_.substr(begin, end - begin);
  erase(begin, end);
}

void LineEditor::left() {
  cursor_ = cluster_before(text_, cursor_);
}

void LineEditor::right() {
  if (cursor_ < text_.size()) cursor_ += first_cluster(std::string_view(text_).substr(cursor_)).bytes;
}

void LineEditor::up() {
  const size_t begin = line_begin();
  if (begin == 0) {
    if (recalled_ > 0) recall(recalled_ - 1);
    return;
  }
  const int column = columns_of(std::string_view(text_).substr(begin, cursor_ - begin));
  const size_t end = begin - 1;
  const size_t above = end == 0 ? std::string::npos : text_.rfind('\n', end - 1);
  cursor_ = at_column(above == std::string::npos ? 0 : above + 1, end, column);
}

void LineEditor::down() {
  const size_t end = line_end();
  if (end == text_.size()) {
    if (recalled_ < history_.size()) recall(recalled_ + 1);
    return;
  }
  const int column = columns_of(std::string_view(text_).substr(line_begin(), cursor_ - line_begin()));
  cursor_ = at_column(end + 1, std::min(text_.find('\n', end + 1), text_.size()), column);
}

void LineEditor::recall(size_t index) {
  if (recalled_ == history_.size()) draft_ = text_;
  recalled_ = index;
  text_ = index == history_.size() ? draft_ : history_[index];
  cursor_ = text_.size();
}

size_t LineEditor::line_begin() const {
  const size_t newline = cursor_ == 0 ? std::string::npos : text_.rfind('\n', cursor_ - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

size_t LineEditor::line_end() const {
  return std::min(text_.find('\n', cursor_), text_.size());
}

size_t LineEditor::word_before() const {
  size_t at = cursor_;
  while (at > 0 && is_space(text_[at - 1])) --at;
  while (at > 0 && !is_space(text_[at - 1])) --at;
  return at;
}

size_t LineEditor::word_after() const {
  size_t at = cursor_;
  while (at < text_.size() && is_space(text_[at])) ++at;
  while (at < text_.size() && !is_space(text_[at])) ++at;
  return at;
}

size_t LineEditor::at_column(size_t begin, size_t end, int column) const {
  int reached = 0;
  while (begin < end) {
    const Cluster cluster = first_cluster(std::string_view(text_).substr(begin, end - begin));
    if (reached + cluster.columns > column) break;
    reached += cluster.columns;
    begin += cluster.bytes;
  }
  return begin;
}

}  // namespace slip::cli
