#include "server/http/api_keys.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "server/http/text.h"

namespace slip::server::http {

namespace {

/// A key travels in a header: printable ASCII without blanks.
void check_key(std::string_view key, std::string_view where) {
  const bool fits = std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!fits || key.size() > 4096)
    fail_usage("{}: an API key may hold only printable ASCII characters without blanks, at most 4096 of them",
               where);
}

std::vector<std::string> keys_of_file(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) fail_file("{}: cannot read the file of API keys; check its path and its permissions", file);
  std::vector<std::string> keys;
  for (std::string line; std::getline(stream, line);) {
    const std::string_view key = trim(line);
    if (key.empty() || key.front() == '#') continue;
    check_key(key, file);
    keys.emplace_back(key);
  }
  if (stream.bad()) fail_file("{}: cannot read the file of API keys to its end", file);
  if (keys.empty())
    fail_file(
        "{}: the file of API keys holds no key, which would open the server to all; write one key per line",
        file);
  return keys;
}

std::string_view presented_bearer(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() < kScheme.size() || !same_word(value.substr(0, kScheme.size()), kScheme)) return {};
  return trim(value.substr(kScheme.size()));
}

}  // namespace

std::vector<std::string> load_api_keys(const std::string& file, std::string_view environment) {
  std::vector<std::string> keys;
  if (!file.empty()) keys = keys_of_file(file);
  for (const std::string_view key : list_items(environment)) {
    check_key(key, "SLIPSTREAM_API_KEY");
    keys.emplace_back(key);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  volatile unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference = static_cast<unsigned char>(difference | static_cast<unsigned char>(a[i] ^ other));
  }
  return difference == 0;
}

std::optional<std::string> accepted_key(const std::vector<std::string>& keys,
                                        const std::vector<Header>& headers) {
  const std::string* found = nullptr;
  for (const Header& header : headers) {
    std::string_view guess;
    if (same_word(header.name, "authorization")) {
      guess = presented_bearer(header.value);
    } else if (same_word(header.name, "x-api-key")) {
      guess = header.value;
    }
    if (guess.empty()) continue;
    for (const std::string& key : keys)
      if (equal_in_constant_time(guess, key)) found = &key;
  }
  if (!found) return std::nullopt;
  return *found;
}

}  // namespace slip::server::http
