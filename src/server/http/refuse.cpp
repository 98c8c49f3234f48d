#include "server/http/refuse.h"

#include <algorithm>
#include <exception>

namespace slip::server::http {

std::vector<Header> refusal_headers(const Refusal& refusal) {
  std::vector<Header> headers{{"Content-Type", "application/json"}};
  const bool come_back = refusal.status == 429 || refusal.status == 503;
  if (come_back || refusal.retry_after_seconds > 0)
    headers.push_back({"Retry-After", std::to_string(std::max(1, refusal.retry_after_seconds))});
  if (refusal.status == 401) headers.push_back({"WWW-Authenticate", "Bearer"});
  if (refusal.status == 405) headers.push_back({"Allow", "GET, HEAD, POST, OPTIONS"});
  return headers;
}

std::string refusal_body(const ErrorBody& shape, std::string_view path, const Refusal& refusal) {
  try {
    if (shape) return shape(path, refusal);
  } catch (const std::exception&) {
    // The refusal matters more than its shape.
  }
  return R"({"error":{"message":"the request was refused","type":"server_error"}})";
}

}  // namespace slip::server::http
