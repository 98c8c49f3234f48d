#include "server/http/text.h"

#include <algorithm>
#include <cstdint>

namespace slip::server::http {

namespace {

char lower_char(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

/// How many bytes follow the first one of a character, or -1 when no character starts so.
int bytes_behind(uint8_t first) {
  if (first < 0x80) return 0;
  if (first >= 0xC2 && first < 0xE0) return 1;
  if (first >= 0xE0 && first < 0xF0) return 2;
  if (first >= 0xF0 && first < 0xF5) return 3;
  return -1;
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower_char(x) == lower_char(y); });
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower_char);
  return result;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string_view find_header(const std::vector<Header>& headers, std::string_view name) {
  for (const Header& header : headers)
    if (same_word(header.name, name)) return header.value;
  return {};
}

bool has_header(const std::vector<Header>& headers, std::string_view name) {
  return std::any_of(headers.begin(), headers.end(),
                     [&](const Header& header) { return same_word(header.name, name); });
}

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const uint8_t first = static_cast<uint8_t>(text[i]);
    const int behind = bytes_behind(first);
    if (behind < 0 || i + behind >= text.size()) return false;
    for (int k = 1; k <= behind; ++k)
      if ((static_cast<uint8_t>(text[i + k]) & 0xC0) != 0x80) return false;
    if (behind > 0) {
      const uint8_t second = static_cast<uint8_t>(text[i + 1]);
      if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0)) return false;
      if ((first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90)) return false;
    }
    i += behind + 1;
  }
  return true;
}

std::vector<std::string_view> list_items(std::string_view list) {
  std::vector<std::string_view> items;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view item = trim(list.substr(0, comma));
    if (!item.empty()) items.push_back(item);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return items;
}

}  // namespace slip::server::http
