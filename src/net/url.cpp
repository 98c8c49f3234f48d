#include "net/url.h"

#include <curl/curl.h>

#include <algorithm>
#include <memory>

#include "net/clock.h"

namespace slip::net {
namespace {

constexpr size_t kLongestUrl = 16384;

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using CurlUrl = std::unique_ptr<CURLU, FreeUrl>;

bool clean(std::string_view text) {
  return text.size() <= kLongestUrl && std::none_of(text.begin(), text.end(), [](char c) {
           return static_cast<unsigned char>(c) <= ' ' || c == 0x7f;
         });
}

std::string part(CURLU* url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, flags) != CURLUE_OK || text == nullptr) return "";
  std::string result = text;
  curl_free(text);
  return result;
}

std::optional<Url> taken_apart(CURLU* parsed) {
  Url url;
  url.text = part(parsed, CURLUPART_URL);
  url.scheme = part(parsed, CURLUPART_SCHEME);
  url.host = part(parsed, CURLUPART_HOST);
  url.port = part(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  url.path = part(parsed, CURLUPART_PATH);
  std::transform(url.host.begin(), url.host.end(), url.host.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if ((url.scheme != "http" && url.scheme != "https") || url.host.empty()) return std::nullopt;
  return url;
}

std::string encoded(std::string_view text, bool keep_slash) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || (keep_slash && c == '/');
    if (plain) {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return result;
}

}  // namespace

Clock& real_clock() {
  static Clock clock;
  return clock;
}

std::string Url::shown() const {
  const bool usual = (scheme == "https" && port == "443") || (scheme == "http" && port == "80");
  return scheme + "://" + host + (usual ? "" : ":" + port) + path;
}

std::optional<Url> parse_url(std::string_view text) {
  if (!clean(text)) return std::nullopt;
  const CurlUrl parsed(curl_url());
  if (curl_url_set(parsed.get(), CURLUPART_URL, std::string(text).c_str(), 0) != CURLUE_OK) {
    return std::nullopt;
  }
  return taken_apart(parsed.get());
}

std::optional<Url> join_url(const Url& base, std::string_view location) {
  if (!clean(location) || location.empty()) return std::nullopt;
  const CurlUrl parsed(curl_url());
  if (curl_url_set(parsed.get(), CURLUPART_URL, base.text.c_str(), 0) != CURLUE_OK) return std::nullopt;
  if (curl_url_set(parsed.get(), CURLUPART_URL, std::string(location).c_str(), 0) != CURLUE_OK) {
    return std::nullopt;
  }
  curl_url_set(parsed.get(), CURLUPART_FRAGMENT, nullptr, 0);
  return taken_apart(parsed.get());
}

std::string encode_segment(std::string_view text) {
  return encoded(text, false);
}

std::string encode_path(std::string_view path) {
  return encoded(path, true);
}

}  // namespace slip::net
