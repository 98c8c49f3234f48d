// The target of a request line, taken apart: origin form ("/v1/models?x=1"), absolute form ("http://host/v1/models") or
// "*". The path is decoded once, here, so that what is checked is what is routed.
//
// Refused: broken percent escapes, control characters, bytes that are no UTF-8 (400); empty, "." and ".." segments and
// backslashes, however they are spelled (404). No path that gets through can climb.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "server/http/exchange.h"

namespace slip::server::http {

struct Target {
  std::string path;       // decoded; begins with '/', or is "*"
  std::string query;      // raw
  std::string authority;  // of the absolute form: host and port; empty otherwise
};

std::variant<Target, Refusal> parse_target(std::string_view target);

/// Takes `base` ("/gemma") off the path; false when the path does not lie below it.
bool strip_base(std::string_view base, std::string& path);

}  // namespace slip::server::http
