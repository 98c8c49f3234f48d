#include "text/json_slices.h"

#include <nlohmann/json.hpp>
#include <string>

namespace slip::text {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

void skip_spaces(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
}

size_t string_length(std::string_view text) {
  for (size_t at = 1; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

/// Of a list or an object: to the bracket that closes it.
size_t nested_length(std::string_view text) {
  size_t depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      at += string_length(text.substr(at)) - 1;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && --depth == 0) {
      return at + 1;
    }
  }
  return text.size();
}

/// Takes the value in front, and the comma or colon behind it.
std::string_view take(std::string_view& text) {
  skip_spaces(text);
  const char first = text.empty() ? ' ' : text[0];
  const size_t length = first == '"'                   ? string_length(text)
                        : first == '[' || first == '{' ? nested_length(text)
                                                       : text.find_first_of(" \t\r\n,:]}");
  const std::string_view value = text.substr(0, length);
  text.remove_prefix(value.size());
  skip_spaces(text);
  if (!text.empty()) text.remove_prefix(1);
  return value;
}

/// What stands between the brackets; nothing when it is neither list nor object.
std::string_view inside(std::string_view text, char open) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // which parsers skip
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  skip_spaces(text);
  if (text.empty() || text[0] != open) return {};
  text = text.substr(0, nested_length(text));
  text.remove_prefix(1);
  if (!text.empty()) text.remove_suffix(1);
  skip_spaces(text);
  return text;
}

bool is_key(std::string_view literal, std::string_view key) {
  if (literal.size() < 2) return false;
  if (literal.find('\\') == std::string_view::npos) return literal.substr(1, literal.size() - 2) == key;
  const auto read = nlohmann::json::parse(literal, nullptr, false);
  return read.is_string() && read.get_ref<const std::string&>() == key;
}

}  // namespace

std::string_view member_slice(std::string_view object, std::string_view key) {
  std::string_view found;
  for (std::string_view rest = inside(object, '{'); !rest.empty();) {
    const std::string_view name = take(rest);
    const std::string_view value = take(rest);
    if (is_key(name, key)) found = value;
    skip_spaces(rest);
  }
  return found;
}

std::vector<std::string_view> item_slices(std::string_view list) {
  std::vector<std::string_view> items;
  for (std::string_view rest = inside(list, '['); !rest.empty();) {
    items.push_back(take(rest));
    skip_spaces(rest);
  }
  return items;
}

}  // namespace slip::text
