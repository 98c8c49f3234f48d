#include "text/call_parser.h"

#include <algorithm>
#include <utility>

#include "text/conversation.h"
#include "text/prompt.h"
#include "text/utf8.h"

namespace slip::text {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view kCall = "call:";
constexpr int kMostStarts = 8;
constexpr std::string_view kSpace = " \t\r\n";

bool is_name_character(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || byte >= 0x80 ||
         std::string_view("_.-:/").find(c) != std::string_view::npos;
}

void append_utf8(uint32_t code, std::string& out) {
  const auto byte = [&](uint32_t value) { out += static_cast<char>(value); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      byte(0xE0 | code >> 12);
    } else {
      byte(0xF0 | code >> 18);
      byte(0x80 | (code >> 12 & 0x3F));
    }
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

// Every function takes what it is named after and moves on, or gives nothing; the position is then of no use.
class CallReader {
 public:
  CallReader(std::string_view text, std::span<const size_t> quotes, size_t at)
      : text_(text), quotes_(quotes), at_(at) {}

  std::optional<ParsedCall> call() {
    ParsedCall call;
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    call.name = text_.substr(begin, at_ - begin);
    skip_space();
    if (call.name.empty() || peek() != '{') return std::nullopt;
    auto arguments = object(1);
    skip_space();
    if (!arguments || at_ != text_.size()) return std::nullopt;
    call.arguments = std::move(*arguments);
    return call;
  }

 private:
  // End of text reads as a byte that fits nowhere.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && kSpace.find(text_[at_]) != std::string_view::npos) ++at_;
  }
  std::span<const size_t>::iterator quote_from(size_t at) const {
    return std::lower_bound(quotes_.begin(), quotes_.end(), at);
  }
  bool at_quote() const {
    const auto next = quote_from(at_);
    return next != quotes_.end() && *next == at_;
  }

  std::optional<json> object(int depth) {
    if (depth > kDeepestValue || !take('{')) return std::nullopt;
    json fields = json::object();
    while (true) {
      skip_space();
      if (take('}')) return fields;
      auto key = this->key();
      skip_space();
      if (!key || !(take(':') || take('='))) return std::nullopt;
      auto value = this->value(depth);
      skip_space();
      if (!value || !(take(',') || peek() == '}')) return std::nullopt;
      fields[std::move(*key)] = std::move(*value);
    }
  }

  std::optional<json> array(int depth) {
    if (depth > kDeepestValue || !take('[')) return std::nullopt;
    json items = json::array();
    while (true) {
      skip_space();
      if (take(']')) return items;
      auto value = this->value(depth);
      skip_space();
      if (!value || !(take(',') || peek() == ']')) return std::nullopt;
      items.push_back(std::move(*value));
    }
  }

  std::optional<std::string> key() {
    if (at_quote()) return quoted();
    if (peek() == '"' || peek() == '\'') return ordinary_string();
    return bare(":=,{}[]\"'");
  }

  std::optional<json> value(int depth) {
    skip_space();
    if (at_quote()) return string_value(quoted());
    switch (peek()) {
      case '{': return object(depth + 1);
      case '[': return array(depth + 1);
      case '"':
      case '\'': return string_value(ordinary_string());
      default: break;
    }
    auto word = bare(",{}[]\"'\n");
    if (!word) return std::nullopt;
    if (*word == "True") return json(true);
    if (*word == "False") return json(false);
    if (*word == "None") return json(nullptr);
    json literal = json::parse(*word, nullptr, false);
    return literal.is_discarded() ? json(std::move(*word)) : literal;
  }

  static std::optional<json> string_value(std::optional<std::string> text) {
    return text ? std::optional<json>(std::move(*text)) : std::nullopt;
  }

  std::optional<std::string> quoted() {
    const size_t begin = at_ + mark::kQuote.size();
    const auto end = quote_from(begin);
    if (end == quotes_.end()) return std::nullopt;
    at_ = *end + mark::kQuote.size();
    return std::string(text_.substr(begin, *end - begin));
  }

  std::optional<std::string> bare(std::string_view ends) {
    const size_t begin = at_;
    const auto quote = quote_from(at_);
    const size_t limit = quote == quotes_.end() ? text_.size() : *quote;
    while (at_ < limit && ends.find(text_[at_]) == std::string_view::npos) ++at_;
    std::string_view word = text_.substr(begin, at_ - begin);
    const size_t last = word.find_last_not_of(kSpace);
    if (last == std::string_view::npos) return std::nullopt;
    return std::string(word.substr(0, last + 1));
  }

  // A quotation mark inside that is not escaped is part of the string unless something follows that may
  // follow a string: models forget to escape.
  std::optional<std::string> ordinary_string() {
    const char mark = text_[at_++];
    std::string text;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\\') {
        escape(text);
      } else if (c == mark && string_may_end()) {
        return text;
      } else {
        text += c;
      }
    }
    return std::nullopt;
  }

  bool string_may_end() const {
    const size_t next = text_.find_first_not_of(kSpace, at_);
    return next == std::string_view::npos ||
           std::string_view(",:=}]").find(text_[next]) != std::string_view::npos;
  }

  void escape(std::string& out) {
    static constexpr std::pair<char, char> kEscapes[] = {{'n', '\n'},  {'t', '\t'},  {'r', '\r'},
                                                         {'b', '\b'},  {'f', '\f'},  {'"', '"'},
                                                         {'\'', '\''}, {'\\', '\\'}, {'/', '/'}};
    const char c = peek();
    for (const auto& [letter, meaning] : kEscapes) {
      if (c != letter) continue;
      ++at_;
      out += meaning;
      return;
    }
    if (c == 'u' && unicode_escape(out)) return;
    out += '\\';  // no escape after all
  }

  std::optional<uint32_t> four_digits(size_t at) const {
    if (at + 4 > text_.size()) return std::nullopt;
    uint32_t code = 0;
    for (const char c : text_.substr(at, 4)) {
      const size_t digit =
          std::string_view("0123456789abcdef").find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
      if (digit == std::string_view::npos) return std::nullopt;
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    return code;
  }

  // At the u of \uXXXX; two of them may be a pair of surrogates.
  bool unicode_escape(std::string& out) {
    auto code = four_digits(at_ + 1);
    if (!code) return false;
    size_t length = 5;
    if (*code >= 0xD800 && *code < 0xE000) {
      if (*code >= 0xDC00 || text_.substr(std::min(at_ + 5, text_.size()), 2) != "\\u") return false;
      const auto low = four_digits(at_ + 7);
      if (!low || *low < 0xDC00 || *low > 0xDFFF) return false;
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
      length = 11;
    }
    append_utf8(*code, out);
    at_ += length;
    return true;
  }

  std::string_view text_;
  std::span<const size_t> quotes_;
  size_t at_;
};

}  // namespace

std::optional<ParsedCall> parse_call(std::string_view text, std::span<const size_t> quotes) {
  if (!is_valid_utf8(text)) return std::nullopt;  // its strings could not be written as JSON
  // A call starts before the first brace and the first quote: "call:" further on is part of an argument, and
  // must not become a call of its own when the outer one is broken.
  std::string_view head = text.substr(0, text.find('{'));
  if (!quotes.empty()) head = head.substr(0, quotes.front());
  size_t at = head.find(kCall);
  if (at == std::string_view::npos) return CallReader(text, quotes, 0).call();
  for (int tries = 0; tries < kMostStarts && at != std::string_view::npos; ++tries) {
    if (auto call = CallReader(text, quotes, at + kCall.size()).call()) {
      call->begin = at;
      return call;
    }
    at = head.find(kCall, at + 1);
  }
  return std::nullopt;
}

}  // namespace slip::text
