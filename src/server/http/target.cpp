#include "server/http/target.h"

#include <optional>

#include "server/http/text.h"

namespace slip::server::http {

namespace {

Refusal bad(std::string message) {
  return {400, "bad_request", std::move(message)};
}
Refusal unknown(std::string message) {
  return {404, "not_found", std::move(message)};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Nothing when an escape is broken.
std::optional<std::string> percent_decoded(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    result += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return result;
}

bool has_control(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return true;
  return false;
}

/// The whole path decoded, so that an escaped slash or dot counts as what it stands for.
std::optional<Refusal> bad_segments(std::string_view path) {
  if (path.find('\\') != std::string_view::npos) return unknown("the path holds a backslash");
  for (size_t start = 1; start < path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    const std::string_view segment = path.substr(start, end - start);
    if (segment.empty()) return unknown("the path holds two slashes in a row; write one");
    if (segment == "." || segment == "..") return unknown("the path holds the segment '.' or '..'");
    start = end + 1;
  }
  return std::nullopt;
}

/// Takes "http://host" off the front of an absolute form.
bool take_authority(std::string_view& rest, std::string& authority) {
  const size_t scheme = rest.find("://");
  if (scheme == std::string_view::npos) return false;
  const std::string_view name = rest.substr(0, scheme);
  if (!same_word(name, "http") && !same_word(name, "https")) return false;
  rest.remove_prefix(scheme + 3);
  const size_t end = std::min(rest.find_first_of("/?"), rest.size());
  authority = rest.substr(0, end);
  rest.remove_prefix(end);
  return !authority.empty();
}

}  // namespace

std::variant<Target, Refusal> parse_target(std::string_view target) {
  Target result;
  if (target == "*") {
    result.path = "*";
    return result;
  }
  if (target.find('#') != std::string_view::npos) return bad("the target holds a fragment ('#')");
  if (!is_utf8(target)) return bad("the target is not UTF-8");
  std::string_view rest = target;
  if (rest.empty() || (rest.front() != '/' && !take_authority(rest, result.authority)))
    return bad("the target is neither a path nor an http address");
  const size_t question = std::min(rest.find('?'), rest.size());
  result.query = rest.substr(std::min(question + 1, rest.size()));
  std::optional<std::string> path = percent_decoded(rest.substr(0, question));
  if (!path) return bad("the path holds a broken percent escape");
  if (path->empty()) path = "/";
  if (!is_utf8(*path)) return bad("the path is not UTF-8 once decoded");
  if (has_control(*path)) return bad("the path holds a control character");
  if (auto refusal = bad_segments(*path)) return *refusal;
  result.path = std::move(*path);
  return result;
}

bool strip_base(std::string_view base, std::string& path) {
  if (base.empty()) return true;
  if (path.compare(0, base.size(), base) != 0) return false;
  if (path.size() > base.size() && path[base.size()] != '/') return false;
  path.erase(0, base.size());
  if (path.empty()) path = "/";
  return true;
}

}  // namespace slip::server::http
