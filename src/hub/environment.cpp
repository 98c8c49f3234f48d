#include "hub/environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/mapped_file.h"
#include "net/url.h"

namespace slip::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestToken = 4096;

std::string upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return text;
}

bool is_true(const std::string& value) {
  const std::string word = upper(value);
  return word == "1" || word == "ON" || word == "YES" || word == "TRUE";
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// A leading ~, $NAME and ${NAME}; a name that is not set stays as it is written.
std::string expand(const std::string& path, const Variables& variables) {
  std::string result;
  size_t at = 0;
  if (path == "~" || path.starts_with("~/")) result = variables("HOME"), at = 1;
  while (at < path.size()) {
    if (path[at] != '$') {
      result += path[at++];
      continue;
    }
    const bool braces = at + 1 < path.size() && path[at + 1] == '{';
    const size_t begin = at + (braces ? 2 : 1);
    size_t end = begin;
    while (end < path.size() && is_name(path[end])) ++end;
    const bool whole = end > begin && (!braces || (end < path.size() && path[end] == '}'));
    const std::string value = whole ? variables(path.substr(begin, end - begin)) : "";
    const size_t behind = whole ? end + (braces ? 1 : 0) : at + 1;
    result += value.empty() ? path.substr(at, behind - at) : value;
    at = behind;
  }
  return result;
}

std::string trimmed(const std::string& text) {
  const auto space = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  const auto first = std::find_if_not(text.begin(), text.end(), space);
  const auto last = std::find_if_not(text.rbegin(), std::make_reverse_iterator(first), space).base();
  return {first, last};
}

std::string home_of(const Variables& variables) {
  if (const std::string home = variables("HF_HOME"); !home.empty()) return expand(home, variables);
  if (const std::string cache = variables("XDG_CACHE_HOME"); !cache.empty()) {
    return (fs::path(expand(cache, variables)) / "huggingface").string();
  }
  const std::string home = variables("HOME");
  return home.empty() ? "" : (fs::path(home) / ".cache" / "huggingface").string();
}

std::string cache_of(const Variables& variables, const std::string& home) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string value = variables(name); !value.empty()) return expand(value, variables);
  }
  return home.empty() ? "" : (fs::path(home) / "hub").string();
}

/// A token goes into a header as it is, so it must be one word of visible characters.
std::string checked_token(const std::string& token, const char* where) {
  const bool plain = token.size() <= kLongestToken &&
                     std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!plain) fail_usage("the token from {} is not one; it must be a word such as hf_...", where);
  return token;
}

std::string token_of(const Variables& variables, const std::string& home) {
  if (is_true(variables("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return "";
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const std::string value = trimmed(variables(name)); !value.empty()) return checked_token(value, name);
  }
  std::string path = expand(variables("HF_TOKEN_PATH"), variables);
  if (path.empty() && !home.empty()) path = (fs::path(home) / "token").string();
  std::error_code ignored;
  if (path.empty() || !fs::is_regular_file(path, ignored)) return "";
  try {
    return checked_token(trimmed(read_text_file(path, kLongestToken)), "Hugging Face's token file");
  } catch (const Error&) {
    return "";  // a file that cannot be read is as good as none: most models need no token
  }
}

std::string endpoint_of(const Variables& variables) {
  std::string endpoint = trimmed(variables("HF_ENDPOINT"));
  if (endpoint.empty()) return "https://huggingface.co";
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!net::parse_url(endpoint)) {
    fail_usage("HF_ENDPOINT is no URL; it must begin with https:// or http://");
  }
  return endpoint;
}

std::chrono::seconds seconds_of(const Variables& variables, const char* name) {
  const std::string text = trimmed(variables(name));
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size() && value >= 1 && value <= 3600;
  return std::chrono::seconds(good ? value : 10);
}

}  // namespace

std::string process_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

Environment read_environment(const Variables& variables) {
  const std::string home = home_of(variables);
  Environment environment;
  environment.cache = cache_of(variables, home);
  environment.endpoint = endpoint_of(variables);
  environment.token = token_of(variables, home);
  environment.offline = is_true(variables("HF_HUB_OFFLINE")) || is_true(variables("TRANSFORMERS_OFFLINE"));
  environment.use_links = !is_true(variables("HF_HUB_DISABLE_SYMLINKS"));
  environment.silence = seconds_of(variables, "HF_HUB_DOWNLOAD_TIMEOUT");
  environment.metadata_silence = seconds_of(variables, "HF_HUB_ETAG_TIMEOUT");
  return environment;
}

std::string scrub(std::string text, const std::string& token) {
  if (token.empty()) return text;
  for (size_t at = text.find(token); at != std::string::npos; at = text.find(token, at)) {
    text.replace(at, token.size(), "(token)");
    at += 7;
  }
  return text;
}

}  // namespace slip::hub
