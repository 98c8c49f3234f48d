#include "text/jinja/unicode.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "text/utf8.h"

namespace slip::text::jinja {
namespace {

#include "text/jinja/unicode_tables.inc"

template <size_t kRows>
bool contains(const uint32_t (&table)[kRows][2], char32_t code) {
  const auto* row =
      std::upper_bound(std::begin(table), std::end(table), code,
                       [](char32_t value, const uint32_t(&range)[2]) { return value < range[0]; });
  return row != std::begin(table) && code <= (row[-1])[1];
}

template <size_t kRows>
char32_t mapped(const uint32_t (&table)[kRows][4], char32_t code) {
  const auto* row =
      std::upper_bound(std::begin(table), std::end(table), code,
                       [](char32_t value, const uint32_t(&range)[4]) { return value < range[0]; });
  // Ranges with a step may lie inside each other, so the few before are looked at too.
  for (int tries = 0; row != std::begin(table) && tries < 4; ++tries) {
    const uint32_t(&range)[4] = *--row;
    if (code <= range[1] && (code - range[0]) % range[2] == 0) return code + range[3];
  }
  return code;
}

struct Mapping {
  char32_t codes[3] = {};
  int count = 0;
};

template <size_t kOne, size_t kMany>
Mapping full(const uint32_t (&one)[kOne][4], const uint32_t (&many)[kMany][4], char32_t code) {
  if (code >= 0x80) {
    const auto* row =
        std::lower_bound(std::begin(many), std::end(many), code,
                         [](const uint32_t(&entry)[4], char32_t value) { return entry[0] < value; });
    if (row != std::end(many) && (*row)[0] == code) {
      Mapping result;
      for (int i = 1; i < 4 && (*row)[i] != 0; ++i) result.codes[result.count++] = (*row)[i];
      return result;
    }
  }
  return {{mapped(one, code)}, 1};
}

// Lower case has one mapping to two characters: that of I with a dot.
constexpr char32_t kDottedI = 0x130;

Mapping lower_of(char32_t code) {
  if (code < 0x80) return {{code >= 'A' && code <= 'Z' ? code + 32 : code}, 1};
  if (code == kDottedI) return {{'i', 0x307}, 2};
  return {{mapped(kToLower, code)}, 1};
}

Mapping upper_of(char32_t code) {
  if (code < 0x80) return {{code >= 'a' && code <= 'z' ? code - 32 : code}, 1};
  return full(kToUpper, kToUpperMany, code);
}

Mapping title_of(char32_t code) {
  if (code < 0x80) return upper_of(code);
  return full(kToTitle, kToTitleMany, code);
}

Mapping fold_of(char32_t code) {
  if (code < 0x80) return lower_of(code);
  const auto* row =
      std::lower_bound(std::begin(kToFoldMany), std::end(kToFoldMany), code,
                       [](const uint32_t(&entry)[4], char32_t value) { return entry[0] < value; });
  if (row != std::end(kToFoldMany) && (*row)[0] == code) return full(kToUpper, kToFoldMany, code);
  for (const auto& entry : kToFold) {
    if (entry[0] == code) return {{entry[1]}, 1};
  }
  return lower_of(code);
}

bool is_cased(char32_t code) {
  return is_upper(code) || is_lower(code) || is_title(code);
}

constexpr char32_t kSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;

/// A sigma that ends a word has a form of its own.
bool ends_a_word(std::string_view text, size_t at, size_t size) {
  bool cased_before = false;
  for (size_t i = at; i > 0;) {
    --i;
    while (i > 0 && (static_cast<uint8_t>(text[i]) & 0xC0) == 0x80) --i;
    const char32_t code = character_at(text, i).code;
    if (contains(kUncased, code)) continue;
    cased_before = is_cased(code);
    break;
  }
  if (!cased_before) return false;
  for (size_t i = at + size; i < text.size();) {
    const Character character = character_at(text, i);
    if (!contains(kUncased, character.code)) return !is_cased(character.code);
    i += character.size;
  }
  return true;
}

Mapping lower_at(std::string_view text, size_t at, const Character& character) {
  if (character.code == kSigma && ends_a_word(text, at, character.size)) return {{kFinalSigma}, 1};
  return lower_of(character.code);
}

/// Calls `map(index, byte, character)` for each character and writes what it gives, with the origin kept.
template <typename Map>
Text rewrite(Heap& heap, const Text& text, Map map) {
  heap.charge_bytes(size_t{text.size} * 4);
  TextBuilder out(heap, text.size);
  const std::string_view whole = text.view();
  size_t index = 0;
  for_each_run(text, [&](std::string_view bytes, Origin origin) {
    const auto from = static_cast<size_t>(bytes.data() - whole.data());
    for (size_t at = from; at < from + bytes.size(); ++index) {
      const Character character = character_at(whole, at);
      const Mapping mapping = map(index, at, character);
      for (int i = 0; i < mapping.count; ++i) out.append_character(mapping.codes[i], origin);
      at += character.size;
    }
  });
  Text made = out.finish();
  made.markup = text.markup;
  return made;
}

/// For ASCII, which most text is: the bytes stay where they are, and so do the origins.
template <typename Map>
Text rewrite_ascii(Heap& heap, const Text& text, Map map) {
  heap.charge_bytes(text.size);
  TextBuilder out(heap, text.size);
  out.append(text);
  Text made = out.finish();
  char* bytes = made.store->data;
  for (uint32_t i = 0; i < text.size; ++i) bytes[i] = map(bytes[i]);
  made.markup = text.markup;
  return made;
}

}  // namespace

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}
bool is_printable(char32_t code) {
  if (code < 0x7F) return code >= 0x20;
  return !contains(kUnprintable, code);
}
bool is_alpha(char32_t code) {
  if (code < 0x80) return (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
  return contains(kAlpha, code);
}
bool is_decimal(char32_t code) {
  return contains(kDecimal, code);
}
bool is_digit(char32_t code) {
  return is_decimal(code) || contains(kDigit, code);
}
bool is_numeric(char32_t code) {
  return is_digit(code) || contains(kNumeric, code);
}
bool is_upper(char32_t code) {
  return contains(kUpper, code);
}
bool is_lower(char32_t code) {
  return contains(kLower, code);
}
bool is_title(char32_t code) {
  return contains(kTitle, code);
}
bool is_word(char32_t code) {
  if (code < 0x80) return is_alpha(code) || (code >= '0' && code <= '9') || code == '_';
  return is_alpha(code) || is_numeric(code);
}

bool is_identifier(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const bool starts = is_alpha(character.code) || character.code == '_';
    if (!starts && (at == 0 || !(is_decimal(character.code) || is_numeric(character.code)))) return false;
    at += character.size;
  }
  return !text.empty();
}

Text to_upper(Heap& heap, const Text& text) {
  if (text.empty()) return text;
  if (text.ascii()) {
    return rewrite_ascii(heap, text,
                         [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c); });
  }
  return rewrite(heap, text, [](size_t, size_t, const Character& c) { return upper_of(c.code); });
}

Text to_lower(Heap& heap, const Text& text) {
  if (text.empty()) return text;
  if (text.ascii()) {
    return rewrite_ascii(heap, text,
                         [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  }
  const std::string_view whole = text.view();
  return rewrite(heap, text, [&](size_t, size_t at, const Character& c) { return lower_at(whole, at, c); });
}

Text to_casefold(Heap& heap, const Text& text) {
  return rewrite(heap, text, [](size_t, size_t, const Character& c) { return fold_of(c.code); });
}

Text to_title(Heap& heap, const Text& text) {
  bool inside = false;
  const std::string_view whole = text.view();
  return rewrite(heap, text, [&](size_t, size_t at, const Character& c) {
    const Mapping mapping = inside ? lower_at(whole, at, c) : title_of(c.code);
    inside = is_cased(c.code);
    return mapping;
  });
}

Text capitalise(Heap& heap, const Text& text) {
  const std::string_view whole = text.view();
  return rewrite(heap, text, [&](size_t index, size_t at, const Character& c) {
    return index == 0 ? title_of(c.code) : lower_at(whole, at, c);
  });
}

Text swap_case(Heap& heap, const Text& text) {
  const std::string_view whole = text.view();
  return rewrite(heap, text, [&](size_t, size_t at, const Character& c) {
    if (is_upper(c.code)) return lower_at(whole, at, c);
    if (is_lower(c.code)) return upper_of(c.code);
    return Mapping{{c.code}, 1};
  });
}

Text strip_spaces(const Text& text, int sides) {
  const std::string_view whole = text.view();
  size_t begin = 0;
  size_t end = whole.size();
  while ((sides & 1) != 0 && begin < end) {
    const Character character = character_at(whole, begin);
    if (!is_space(character.code)) break;
    begin += character.size;
  }
  while ((sides & 2) != 0 && end > begin) {
    size_t start = end - 1;
    while (start > begin && (static_cast<uint8_t>(whole[start]) & 0xC0) == 0x80) --start;
    if (!is_space(character_at(whole.substr(0, end), start).code)) break;
    end = start;
  }
  return text.part(begin, end - begin);
}

}  // namespace slip::text::jinja
