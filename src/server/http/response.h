// The bytes in front of an answer's body.
//
// Names and values come from the handler; control characters in them become blanks, so that no text which found its way
// into a header can begin another one.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"

namespace slip::server::http {

struct ResponseHead {
  int status = 200;
  const std::vector<Header>& headers;
  const std::vector<Header>& more;           // of the server: CORS
  std::optional<uint64_t> content_length{};  // none: chunked, or to the end of the connection
  bool chunked = false;
  bool close = false;
  bool http11 = true;
  std::string_view id{};  // for x-request-id; empty: none
};

std::string response_head(const ResponseHead& head);

/// Whether an answer of this status has no body, whatever the method.
bool has_no_body(int status);
std::string_view reason_phrase(int status);
/// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string http_date(std::time_t time);
/// Appends `data` as one chunk; nothing when it is empty, since an empty chunk would end the body.
void append_chunk(std::string& to, std::string_view data);

}  // namespace slip::server::http
