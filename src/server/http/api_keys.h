// The keys that open the server. Comparing takes the same time whether a guess is nearly right or quite wrong, and
// always looks at every key; only the length of a guess can be told from outside.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"

namespace slip::server::http {

/// Keys from a file (one a line; blank lines and lines beginning with '#' are skipped) and from the value of
/// SLIPSTREAM_API_KEY (several separated by commas). A file without a key is a slip::Error: it would open the server to
/// all. An empty path and an empty value give no keys.
std::vector<std::string> load_api_keys(const std::string& file, std::string_view environment);

/// The key a request came with, if it is one of `keys`: "Authorization: Bearer KEY" or "x-api-key: KEY".
std::optional<std::string> accepted_key(const std::vector<std::string>& keys,
                                        const std::vector<Header>& headers);

/// Whether two texts are equal, in a time that depends on their lengths only.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace slip::server::http
