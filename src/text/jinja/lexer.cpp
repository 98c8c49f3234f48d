#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja/failure.h"
#include "text/jinja/numbers.h"
#include "text/jinja/unicode.h"

namespace slip::text::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

struct Symbol {
  std::string_view text;
  TokenKind kind;
};
// Longer ones first.
constexpr auto kSymbols = std::to_array<Symbol>(
    {{"//", TokenKind::kFloordiv}, {"**", TokenKind::kPow},     {"==", TokenKind::kEq},
     {"!=", TokenKind::kNe},       {">=", TokenKind::kGe},      {"<=", TokenKind::kLe},
     {"+", TokenKind::kAdd},       {"-", TokenKind::kSub},      {"/", TokenKind::kDiv},
     {"*", TokenKind::kMul},       {"%", TokenKind::kMod},      {"~", TokenKind::kTilde},
     {"[", TokenKind::kLbracket},  {"]", TokenKind::kRbracket}, {"(", TokenKind::kLparen},
     {")", TokenKind::kRparen},    {"{", TokenKind::kLbrace},   {"}", TokenKind::kRbrace},
     {">", TokenKind::kGt},        {"<", TokenKind::kLt},       {"=", TokenKind::kAssign},
     {".", TokenKind::kDot},       {":", TokenKind::kColon},    {"|", TokenKind::kPipe},
     {",", TokenKind::kComma},     {";", TokenKind::kSemicolon}});

char closing(char open) {
  return open == '(' ? ')' : open == '[' ? ']' : '}';
}

/// The place behind white space at `at`.
size_t behind_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Character character = character_at(text, at);
    if (!is_space(character.code)) break;
    at += character.size;
  }
  return at;
}

/// Where white space before `end` begins.
size_t before_spaces(std::string_view text, size_t from, size_t end) {
  while (end > from) {
    size_t start = end - 1;
    while (start > from && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
    if (!is_space(character_at(text.substr(0, end), start).code)) break;
    end = start;
  }
  return end;
}

}  // namespace

std::string_view describe(TokenKind kind) {
  switch (kind) {
    case TokenKind::kData: return "template data / text";
    case TokenKind::kVariableBegin: return "begin of print statement";
    case TokenKind::kVariableEnd: return "end of print statement";
    case TokenKind::kBlockBegin: return "begin of statement block";
    case TokenKind::kBlockEnd: return "end of statement block";
    case TokenKind::kName: return "name";
    case TokenKind::kString: return "string";
    case TokenKind::kNumber: return "integer";
    case TokenKind::kEnd: return "end of template";
    default: break;
  }
  for (const Symbol& symbol : kSymbols) {
    if (symbol.kind == kind) return symbol.text;
  }
  return "token";
}

std::string describe(const Token& token) {
  if (token.kind == TokenKind::kName) return std::string(token.text);
  if (token.kind == TokenKind::kNumber) return token.value.is_integer() ? "integer" : "float";
  return std::string(describe(token.kind));
}

std::string normalise(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      text += '\n';
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void Lexer::refuse(size_t offset, std::string message) const {
  throw Failure{Fault::kTemplateSyntaxError, std::move(message), offset};
}

Token Lexer::make(TokenKind kind, size_t size) {
  Token token{kind, static_cast<uint32_t>(at_), source_.substr(at_, size)};
  at_ += size;
  return token;
}

Token Lexer::next() {
  return inside_ == Inside::kText ? text_or_tag() : in_tag();
}

/// The text from at_ to the tag at `tag`, less what the tag takes along.
Text Lexer::data_before(size_t tag, char sign, bool strips_line) const {
  size_t end = tag;
  if (sign == '-') {
    end = before_spaces(source_, at_, tag);
  } else if (sign != '+' && strips_line) {
    const size_t line_break = source_.substr(at_, tag - at_).rfind('\n');
    const bool breaks = line_break != std::string_view::npos;
    const size_t line = breaks ? at_ + line_break + 1 : at_;
    if ((breaks || line_starts_) && before_spaces(source_, line, tag) == line) end = line;
  }
  return make_text(heap_, source_.substr(at_, end - at_));
}

Token Lexer::text_or_tag() {
  while (at_ < source_.size()) {
    size_t tag = at_;
    do {
      tag = source_.find('{', tag);
    } while (tag != std::string_view::npos && ++tag < source_.size() && source_[tag] != '%' &&
             source_[tag] != '{' && source_[tag] != '#');
    if (tag == std::string_view::npos || tag >= source_.size()) {
      Token token = make(TokenKind::kData, source_.size() - at_);
      token.value = Value::of(make_text(heap_, token.text));
      return token;
    }
    const char mark = source_[tag--];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const size_t inside = tag + 2 + (sign == '-' || sign == '+' ? 1 : 0);
    const Text data = data_before(tag, sign, mark != '{');
    if (data.size > 0) {
      // Comes back for the tag itself, which then has nothing before it.
      Token token{TokenKind::kData, static_cast<uint32_t>(at_), data.view(), Value::of(data)};
      at_ = tag;
      line_starts_ = false;
      return token;
    }
    at_ = tag;
    if (mark == '#') {
      skip_comment(inside);
      continue;
    }
    if (mark == '%') {
      const size_t word = behind_spaces(source_, inside);
      if (source_.substr(word).starts_with("raw")) {
        const size_t end = behind_spaces(source_, word + 3);
        const bool strips = source_.substr(end).starts_with("-%}");
        if (strips || source_.substr(end).starts_with("%}")) {
          const size_t text = strips ? behind_spaces(source_, end + 3) : end + 2;
          const Token token = raw(tag, text);
          if (token.text.empty()) continue;
          return token;
        }
      }
    }
    inside_ = mark == '%' ? Inside::kBlock : Inside::kVariable;
    return make(mark == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, inside - tag);
  }
  return Token{TokenKind::kEnd, static_cast<uint32_t>(source_.size())};
}

void Lexer::skip_comment(size_t begin) {
  const size_t end = source_.find("#}", begin);
  if (end == std::string_view::npos) refuse(at_, "Missing end of comment tag");
  const char sign = end > begin ? source_[end - 1] : ' ';
  at_ = end + 2;
  if (sign == '-') {
    at_ = behind_spaces(source_, at_);
  } else if (sign != '+' && at_ < source_.size() && source_[at_] == '\n') {
    ++at_;
  }
  line_starts_ = source_[at_ - 1] == '\n';
}

Token Lexer::raw(size_t begin, size_t inside) {
  for (size_t tag = source_.find("{%", inside); tag != std::string_view::npos;
       tag = source_.find("{%", tag + 1)) {
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const size_t word = behind_spaces(source_, tag + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (!source_.substr(word).starts_with("endraw")) continue;
    size_t end = behind_spaces(source_, word + 6);
    const char end_sign = end < source_.size() ? source_[end] : ' ';
    if (end_sign == '-' || end_sign == '+') ++end;
    if (!source_.substr(end).starts_with("%}")) continue;
    at_ = inside;
    line_starts_ = source_[inside - 1] == '\n';
    const Text data = data_before(tag, sign, true);
    at_ = end + 2;
    if (end_sign == '-') {
      at_ = behind_spaces(source_, at_);
    } else if (end_sign != '+' && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
    line_starts_ = source_[at_ - 1] == '\n';
    return {TokenKind::kData, static_cast<uint32_t>(inside), data.view(), Value::of(data)};
  }
  refuse(begin, "Missing end of raw directive");
}

void Lexer::skip_spaces() {
  at_ = behind_spaces(source_, at_);
}

/// The end of the tag, with what it takes along, if it stands here.
bool Lexer::tag_end(Token& token) {
  const bool block = inside_ == Inside::kBlock;
  const std::string_view mark = block ? "%}" : "}}";
  const std::string_view rest = source_.substr(at_);
  const size_t sign = !rest.empty() && (rest[0] == '-' || (block && rest[0] == '+')) ? 1 : 0;
  if (!rest.substr(sign).starts_with(mark)) return false;
  size_t end = at_ + sign + 2;
  if (sign == 1 && rest[0] == '-') {
    end = behind_spaces(source_, end);
  } else if (block && sign == 0 && end < source_.size() && source_[end] == '\n') {
    ++end;
  }
  token = make(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, end - at_);
  line_starts_ = source_[at_ - 1] == '\n';
  inside_ = Inside::kText;
  return true;
}

Token Lexer::in_tag() {
  Token token;
  // White space is a token of its own, so an end mark is looked for on both sides of it.
  if (open_.empty() && tag_end(token)) return token;
  skip_spaces();
  if (at_ == source_.size()) return {TokenKind::kEnd, static_cast<uint32_t>(at_)};
  if (open_.empty() && tag_end(token)) return token;
  const char c = source_[at_];
  if (is_digit(c)) return number();
  if (c == '\'' || c == '"') return string();
  const Character character = character_at(source_, at_);
  if (is_word(character.code)) return name_or_number();
  return symbol();
}

Token Lexer::name_or_number() {
  size_t end = at_;
  while (end < source_.size()) {
    const Character character = character_at(source_, end);
    if (!is_word(character.code)) break;
    end += character.size;
  }
  const Token token = make(TokenKind::kName, end - at_);
  if (!is_identifier(token.text)) refuse(token.offset, "Invalid character in identifier");
  return token;
}

Token Lexer::number() {
  // A number behind a dot is never a float: `x.1.2`.
  const bool may_be_float = at_ == 0 || source_[at_ - 1] != '.';
  const size_t size = number_length(source_.substr(at_), may_be_float);
  Token token = make(TokenKind::kNumber, size);
  token.value = parse_literal_number(heap_, token.text);
  return token;
}

Token Lexer::string() {
  const char quote = source_[at_];
  size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) refuse(at_, fmt::format("unexpected char \"{}\" at {}", quote, at_));
  Token token = make(TokenKind::kString, end + 1 - at_);
  token.text = unescape(token.text.substr(1, token.text.size() - 2), heap_, token.offset);
  return token;
}

Token Lexer::symbol() {
  for (const Symbol& symbol : kSymbols) {
    if (!source_.substr(at_).starts_with(symbol.text)) continue;
    const Token token = make(symbol.kind, symbol.text.size());
    balance(token);
    return token;
  }
  const Character character = character_at(source_, at_);
  refuse(at_, fmt::format("unexpected char '{}' at {}", source_.substr(at_, character.size), at_));
}

void Lexer::balance(const Token& token) {
  const char c = token.text[0];
  if (c == '(' || c == '[' || c == '{') open_.push_back(c);
  if (c != ')' && c != ']' && c != '}') return;
  if (open_.empty()) refuse(token.offset, fmt::format("unexpected '{}'", c));
  const char expected = closing(open_.back());
  open_.pop_back();
  if (expected != c) refuse(token.offset, fmt::format("unexpected '{}', expected '{}'", c, expected));
}

}  // namespace slip::text::jinja
