// What the escapes in a template's string literals stand for: Python's, except for most of the names in \N{}.
#include <optional>
#include <utility>

#include "text/jinja/failure.h"
#include "text/jinja/lexer.h"

namespace slip::text::jinja {
namespace {

// Names that templates have a use for. The whole list has 150,000.
constexpr std::pair<std::string_view, char32_t> kNamedCharacters[] = {
    {"NULL", 0},
    {"SPACE", 0x20},
    {"NO-BREAK SPACE", 0xA0},
    {"SECTION SIGN", 0xA7},
    {"COPYRIGHT SIGN", 0xA9},
    {"DEGREE SIGN", 0xB0},
    {"PILCROW SIGN", 0xB6},
    {"MIDDLE DOT", 0xB7},
    {"MULTIPLICATION SIGN", 0xD7},
    {"ZERO WIDTH SPACE", 0x200B},
    {"EN DASH", 0x2013},
    {"EM DASH", 0x2014},
    {"LEFT SINGLE QUOTATION MARK", 0x2018},
    {"RIGHT SINGLE QUOTATION MARK", 0x2019},
    {"LEFT DOUBLE QUOTATION MARK", 0x201C},
    {"RIGHT DOUBLE QUOTATION MARK", 0x201D},
    {"BULLET", 0x2022},
    {"HORIZONTAL ELLIPSIS", 0x2026},
    {"EURO SIGN", 0x20AC},
    {"LEFTWARDS ARROW", 0x2190},
    {"RIGHTWARDS ARROW", 0x2192},
    {"CHECK MARK", 0x2713},
    {"REPLACEMENT CHARACTER", 0xFFFD},
    {"LOWER ONE EIGHTH BLOCK", 0x2581},
    {"FULLWIDTH VERTICAL LINE", 0xFF5C},
};

class Unescaper {
 public:
  Unescaper(std::string_view literal, Heap& heap, size_t offset)
      : literal_(literal), out_(heap, literal.size()), offset_(offset) {}

  std::string_view text() {
    while (at_ < literal_.size()) {
      if (literal_[at_] != '\\') {
        const size_t end = std::min(literal_.find('\\', at_), literal_.size());
        out_.append(literal_.substr(at_, end - at_), Origin::kTemplate);
        at_ = end;
        continue;
      }
      ++at_;
      escape();
    }
    return out_.finish().view();
  }

 private:
  void put(char32_t code) { out_.append_character(code, Origin::kTemplate); }

  [[noreturn]] void refuse(std::string_view what) const {
    throw Failure{Fault::kTemplateSyntaxError, std::string(what), offset_};
  }

  std::optional<uint32_t> number(size_t digits, uint32_t base) {
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const char c = at_ < literal_.size() ? literal_[at_] : ' ';
      const uint32_t digit = c >= '0' && c <= '9' ? static_cast<uint32_t>(c - '0')
                             : (c | 0x20) >= 'a' && (c | 0x20) <= 'f'
                                 ? static_cast<uint32_t>((c | 0x20) - 'a' + 10)
                                 : 99;
      if (digit >= base) return std::nullopt;
      value = value * base + digit;
    }
    return value;
  }

  void hexadecimal(size_t digits) {
    const auto code = number(digits, 16);
    if (!code) refuse("an escape in a string lacks digits");
    if (*code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) {
      refuse("an escape in a string names no character");
    }
    put(*code);
  }

  void octal() {
    uint32_t value = 0;
    for (int i = 0; i < 3 && at_ < literal_.size() && literal_[at_] >= '0' && literal_[at_] < '8';
         ++i, ++at_) {
      value = value * 8 + static_cast<uint32_t>(literal_[at_] - '0');
    }
    put(value);
  }

  void named() {
    const size_t end = literal_.find('}', at_);
    if (at_ >= literal_.size() || literal_[at_] != '{' || end == std::string_view::npos) {
      refuse("malformed \\N character escape");
    }
    const std::string_view name = literal_.substr(at_ + 1, end - at_ - 1);
    for (const auto& [known, code] : kNamedCharacters) {
      if (known != name) continue;
      at_ = end + 1;
      return put(code);
    }
    refuse("the name in \\N{...} is not known here; write \\u and the number instead");
  }

  void escape() {
    const char c = at_ < literal_.size() ? literal_[at_] : '\\';
    static constexpr std::string_view kLetters = "\\'\"abfnrtv";
    static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t simple = kLetters.find(c); simple != std::string_view::npos) {
      ++at_;
      return put(static_cast<char32_t>(kMeanings[simple]));
    }
    if (c >= '0' && c < '8') return octal();
    ++at_;
    switch (c) {
      case '\n': return;
      case 'x': return hexadecimal(2);
      case 'u': return hexadecimal(4);
      case 'U': return hexadecimal(8);
      case 'N': return named();
      default: --at_; return put('\\');  // an unknown escape stays as it is
    }
  }

  std::string_view literal_;
  TextBuilder out_;
  size_t offset_;
  size_t at_ = 0;
};

}  // namespace

std::string_view unescape(std::string_view literal, Heap& heap, size_t offset) {
  if (literal.find('\\') == std::string_view::npos) return literal;
  return Unescaper(literal, heap, offset).text();
}

}  // namespace slip::text::jinja
