// URLs of http and https, and of nothing else: parsed, joined with a redirect's Location, and shown to people
// without what may be secret. parse_url() accepts what libcurl accepts and refuses other schemes, so that a
// redirect to file:// ends here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace slip::net {

struct Url {
  std::string text;  // whole, as it is requested
  std::string scheme, host, port, path;

  /// "https://huggingface.co:443": what decides who may see a token.
  std::string origin() const { return scheme + "://" + host + ":" + port; }
  /// Without user, password, query and fragment, where addresses carry their signatures.
  std::string shown() const;
};

/// Nothing when it is not an absolute URL of http or https.
std::optional<Url> parse_url(std::string_view text);

/// What a Location header of a reply from `base` leads to; nothing when that is no http or https.
std::optional<Url> join_url(const Url& base, std::string_view location);

/// Bytes other than letters, digits, "-._~" as %XX. encode_path() leaves slashes.
std::string encode_segment(std::string_view text);
std::string encode_path(std::string_view path);

}  // namespace slip::net
