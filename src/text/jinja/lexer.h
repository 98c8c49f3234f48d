// Lexer: cuts a template into tokens as jinja2's does with trim_blocks and lstrip_blocks on. Text outside
// tags comes out as kData, with the white space that a tag takes along already gone; comments leave nothing.
//
// The source must be normalised first (normalise()). Cost: one pass.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace slip::text::jinja {

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kNumber,  // `value` is the constant
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloordiv,
  kMod,
  kPow,
  kTilde,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAssign,
  kDot,
  kComma,
  kColon,
  kSemicolon,
  kPipe,
  kLparen,
  kRparen,
  kLbracket,
  kRbracket,
  kLbrace,
  kRbrace,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t offset = 0;
  std::string_view text = {};  // as written; of a string, what it stands for
  Value value = {};            // of a number

  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
};

/// How messages call a token: "end of print statement", or as it is written.
std::string describe(const Token& token);
std::string_view describe(TokenKind kind);

/// Line breaks as \n, without the one at the very end.
std::string normalise(std::string_view source);

class Lexer {
 public:
  /// Both must outlive it; what tokens point to lives in `heap` or in the source.
  Lexer(std::string_view source, Heap& heap) : source_(source), heap_(heap) {}
  /// TemplateSyntaxError with the offset.
  Token next();

 private:
  enum class Inside : uint8_t { kText, kBlock, kVariable };

  Token text_or_tag();
  Token in_tag();
  bool tag_end(Token& token);
  void skip_comment(size_t begin);
  Token raw(size_t begin, size_t inside);
  Token name_or_number();
  Token number();
  Token string();
  Token symbol();
  void balance(const Token& token);
  Token make(TokenKind kind, size_t size);
  Text data_before(size_t tag, char sign, bool strips_line) const;
  void skip_spaces();
  [[noreturn]] void refuse(size_t offset, std::string message) const;

  std::string_view source_;
  Heap& heap_;
  size_t at_ = 0;
  Inside inside_ = Inside::kText;
  bool line_starts_ = true;  // what came last ended with a line break
  std::vector<char> open_;   // brackets, innermost last
};

/// What a literal between quotes stands for. `offset` is for the message.
std::string_view unescape(std::string_view literal, Heap& heap, size_t offset);

}  // namespace slip::text::jinja
