// Refusals of the HTTP half as answers: their headers and their body in the shape of the API that was spoken.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"

namespace slip::server::http {

/// Content-Type, and what the status asks for: Retry-After, WWW-Authenticate, Allow.
std::vector<Header> refusal_headers(const Refusal& refusal);

/// What `shape` makes of it; a plain sentence in JSON when it throws.
std::string refusal_body(const ErrorBody& shape, std::string_view path, const Refusal& refusal);

}  // namespace slip::server::http
