// Who may ask: the host a request names, the site its browser page comes from, its key. Pure functions of the head of a
// request, so that a table can test them.
//
// Rules. Bound to loopback, the host must be a local one or allowed, or else a page of any site could reach the model by
// a name that resolves to 127.0.0.1. A request that may change something and comes from a browser page of another site is
// refused on every binding, unless that site is a CORS origin. A missing key and a wrong one get the same answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"
#include "server/http/options.h"

namespace slip::server::http {

/// What a rule looks at. The head's views live as long as the caller's.
struct AccessQuestion {
  std::string_view method;
  std::string_view path;       // decoded
  std::string_view authority;  // of an absolute target; empty otherwise
  const std::vector<Header>& headers;
  bool host_check = false;    // the connection came in on a loopback address
  std::string_view bound_to;  // that address, "127.0.0.1"
};

class Access {
 public:
  explicit Access(const Options& options);

  /// Host and site.
  std::optional<Refusal> refused_place(const AccessQuestion& question) const;
  /// The key that was accepted (empty where none is needed), or nothing: then unauthorized() is the answer.
  std::optional<std::string> key_for(const AccessQuestion& question) const;
  static Refusal unauthorized();

  /// The headers that let a page of the request's origin read the answer; none when it may not.
  std::vector<Header> cors_headers(std::string_view origin) const;
  /// Whether the request is a browser asking first (OPTIONS with Access-Control-Request-Method).
  static bool is_preflight(const AccessQuestion& question);
  /// The answer to it: its headers, or nothing when the origin is not allowed.
  std::optional<std::vector<Header>> preflight(const AccessQuestion& question) const;

 private:
  bool local_or_allowed(const std::string& host, const AccessQuestion& question) const;
  bool is_cors_origin(std::string_view origin) const;
  bool from_another_site(const AccessQuestion& question) const;

  std::vector<std::string> keys_, free_paths_, allowed_hosts_, cors_origins_;
  bool any_host_ = false, any_origin_ = false;
};

/// The host of "host:port", in lower case, without port, brackets and a final dot; nothing when it is no authority.
std::optional<std::string> host_of(std::string_view authority);

}  // namespace slip::server::http
