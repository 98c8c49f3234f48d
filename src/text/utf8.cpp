#include "text/utf8.h"

#include <cstdint>

namespace slip::text {
namespace {

uint8_t byte_at(std::string_view text, size_t index) {
  return static_cast<uint8_t>(text[index]);
}

bool continues(std::string_view text, size_t index) {
  return (byte_at(text, index) & 0xC0) == 0x80;
}

/// The code point of the character of `length` bytes, already checked, at the start of `text`.
uint32_t code_point(std::string_view text, size_t length) {
  if (length == 1) return byte_at(text, 0);
  uint32_t value = byte_at(text, 0) & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) value = (value << 6) | (byte_at(text, i) & 0x3Fu);
  return value;
}

bool is_space(uint32_t point) {
  return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x20) || point == 0x85 ||
         point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
         point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

}  // namespace

size_t character_length(std::string_view text) {
  if (text.empty()) return 0;
  const uint8_t lead = byte_at(text, 0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;  // continuation bytes, overlong two-byte forms, above U+10FFFF
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!continues(text, i)) return 0;
  }
  static constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const uint32_t point = code_point(text, length);
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  return point < kSmallest[length] || point > 0x10FFFF || surrogate ? 0 : length;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string_view trim(std::string_view text) {
  while (!text.empty()) {
    const size_t length = character_length(text);
    if (length == 0 || !is_space(code_point(text, length))) break;
    text.remove_prefix(length);
  }
  while (!text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && text.size() - start < 4 && continues(text, start)) --start;
    const std::string_view last = text.substr(start);
    if (character_length(last) != last.size() || !is_space(code_point(last, last.size()))) break;
    text.remove_suffix(last.size());
  }
  return text;
}

}  // namespace slip::text
