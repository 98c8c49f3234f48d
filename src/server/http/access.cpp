#include "server/http/access.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "server/http/api_keys.h"
#include "server/http/text.h"

namespace slip::server::http {

namespace {

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool is_port(std::string_view text) {
  return text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_host_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_';
}

std::optional<std::string> bracketed_host(std::string_view authority) {
  const size_t end = authority.find(']');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view host = authority.substr(1, end - 1), port = authority.substr(end + 1);
  if (!port.empty() && (port.front() != ':' || !is_port(port.substr(1)))) return std::nullopt;
  const bool fits = !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
  });
  if (!fits) return std::nullopt;
  return lower(host);
}

/// The host of an origin "scheme://host:port"; nothing for "null" and other texts.
std::optional<std::string> host_of_origin(std::string_view origin) {
  const size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return std::nullopt;
  return host_of(origin.substr(scheme + 3));
}

/// Methods that change nothing, so that any page may send them: it cannot read the answer.
bool is_safe(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

/// "https://app.example/" -> "https://app.example".
std::string without_final_slash(std::string_view text) {
  return std::string(!text.empty() && text.back() == '/' ? text.substr(0, text.size() - 1) : text);
}

}  // namespace

std::optional<std::string> host_of(std::string_view authority) {
  if (authority.empty()) return std::nullopt;
  if (authority.front() == '[') return bracketed_host(authority);
  const size_t colon = std::min(authority.find(':'), authority.size());
  std::string_view host = authority.substr(0, colon);
  if (colon < authority.size() && !is_port(authority.substr(colon + 1))) return std::nullopt;
  if (!host.empty() && host.back() == '.') host.remove_suffix(1);
  if (host.empty() || !std::all_of(host.begin(), host.end(), is_host_char)) return std::nullopt;
  return lower(host);
}

Access::Access(const Options& options) : keys_(options.keys), free_paths_(options.free_paths) {
  for (const std::string& name : options.allowed_hosts) {
    if (name == "*") {
      any_host_ = true;
      continue;
    }
    // An address may be written without brackets here.
    const bool bare = std::count(name.begin(), name.end(), ':') > 1 && name.front() != '[';
    const auto host = host_of(bare ? "[" + name + "]" : name);
    if (!host) fail_usage("--allowed-host {}: this is no host name; write it as in 'models.example'", name);
    allowed_hosts_.push_back(*host);
  }
  for (const std::string& origin : options.cors_origins) {
    if (origin == "*") {
      any_origin_ = true;
      continue;
    }
    if (origin != "null" && !host_of_origin(without_final_slash(origin)))
      fail_usage("--cors-origin {}: this is no origin; write it as in 'https://app.example:8443'", origin);
    cors_origins_.push_back(lower(without_final_slash(origin)));
  }
}

bool Access::local_or_allowed(const std::string& host, const AccessQuestion& question) const {
  return any_host_ || host == "localhost" || host == "127.0.0.1" || host == "::1" ||
         host == question.bound_to || contains(allowed_hosts_, host);
}

bool Access::is_cors_origin(std::string_view origin) const {
  return any_origin_ || contains(cors_origins_, lower(origin));
}

bool Access::from_another_site(const AccessQuestion& question) const {
  const std::string_view origin = find_header(question.headers, "origin");
  if (!origin.empty() && is_cors_origin(origin)) return false;
  const std::string_view site = find_header(question.headers, "sec-fetch-site");
  if (same_word(site, "same-origin") || same_word(site, "none")) return false;
  if (same_word(site, "cross-site") || same_word(site, "same-site")) return true;
  if (!has_header(question.headers, "origin")) return false;
  const auto from = host_of_origin(origin);
  const auto here =
      host_of(question.authority.empty() ? find_header(question.headers, "host") : question.authority);
  return !from || (from != here && !any_host_ && !contains(allowed_hosts_, *from));
}

std::optional<Refusal> Access::refused_place(const AccessQuestion& question) const {
  const std::string_view named = find_header(question.headers, "host");
  for (const std::string_view authority : {named, question.authority}) {
    if (authority.empty()) continue;
    const auto host = host_of(authority);
    if (!host) return Refusal{400, "bad_request", "the Host header is no host name"};
    if (question.host_check && !local_or_allowed(*host, question))
      return Refusal{403, "forbidden_host",
                     fmt::format("this server answers to local names only, not to '{}'; start it with "
                                 "--allowed-host {} to allow it",
                                 *host, *host)};
  }
  // A browser always names a host; what sends an empty one is none of them, but it is not a local name either.
  if (question.host_check && named.empty() && has_header(question.headers, "host") &&
      question.authority.empty())
    return Refusal{403, "forbidden_host",
                   "the Host header is empty; this server answers to local names only"};
  if (!is_safe(question.method) && from_another_site(question))
    return Refusal{
        403, "forbidden_origin",
        "the request comes from a page of another site; start the server with --cors-origin and the "
        "origin of that page to allow it"};
  return std::nullopt;
}

std::optional<std::string> Access::key_for(const AccessQuestion& question) const {
  if (keys_.empty()) return std::string();
  auto key = accepted_key(keys_, question.headers);
  if (key) return key;
  const bool reads = question.method == "GET" || question.method == "HEAD";
  if (reads && contains(free_paths_, question.path)) return std::string();
  return std::nullopt;
}

Refusal Access::unauthorized() {
  return {401, "invalid_api_key",
          "this server needs an API key, as 'Authorization: Bearer KEY' or 'x-api-key: KEY', and none that "
          "it knows "
          "came with the request"};
}

std::vector<Header> Access::cors_headers(std::string_view origin) const {
  if (origin.empty() || !is_cors_origin(origin)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Access-Control-Expose-Headers", "x-request-id, retry-after"},
          {"Vary", "Origin"}};
}

bool Access::is_preflight(const AccessQuestion& question) {
  return question.method == "OPTIONS" && has_header(question.headers, "origin") &&
         has_header(question.headers, "access-control-request-method");
}

std::optional<std::vector<Header>> Access::preflight(const AccessQuestion& question) const {
  std::vector<Header> headers = cors_headers(find_header(question.headers, "origin"));
  if (headers.empty()) return std::nullopt;
  headers.push_back({"Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS"});
  const std::string_view wanted = find_header(question.headers, "access-control-request-headers");
  headers.push_back({"Access-Control-Allow-Headers",
                     wanted.empty() ? "authorization, content-type, x-api-key" : std::string(wanted)});
  headers.push_back({"Access-Control-Max-Age", "600"});
  if (has_header(question.headers, "access-control-request-private-network"))
    headers.push_back({"Access-Control-Allow-Private-Network", "true"});
  return headers;
}

}  // namespace slip::server::http
