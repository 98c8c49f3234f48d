#include "server/api/error.h"

#include <new>

#include "server/api/json_text.h"

namespace slip::server::api {
namespace {

/// What OpenAI's clients call an error of this status.
const char* openai_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 501: return "not_implemented_error";
    case 503: return "service_unavailable_error";
    default: return status < 500 ? "invalid_request_error" : "server_error";
  }
}

const char* anthropic_type(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503:
    case 529: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

bool below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

/// The place in front of a message, "messages[2].content" of "messages[2].content: must be a string".
std::string place_of(std::string_view message) {
  const size_t end = message.find(": ");
  if (end == std::string_view::npos) return {};
  const std::string_view place = message.substr(0, end);
  const bool known = place.starts_with("messages[") || place.starts_with("tools[");
  return known && place.find(' ') == std::string_view::npos ? std::string(place) : std::string();
}

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage: return 400;
    case ErrorKind::kOutOfMemory: return 400;
    default: return 500;
  }
}

}  // namespace

ApiError api_error(const std::exception& error) {
  if (const auto* known = dynamic_cast<const ApiError*>(&error)) return *known;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return {503, "out_of_memory", "the server is out of memory; try again with a smaller request"};
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    const char* code = ours->kind() == ErrorKind::kOutOfMemory ? "out_of_memory"
                       : ours->kind() == ErrorKind::kUsage     ? "invalid_value"
                                                               : "internal_error";
    return {status_of(ours->kind()), code, ours->what(), place_of(ours->what())};
  }
  return {500, "internal_error", error.what()};
}

std::string error_body(std::string_view path, const ApiError& error) {
  if (below(path, "/api")) return to_text({{"error", error.what()}});
  if (below(path, "/v1/messages")) {
    return to_text(
        {{"type", "error"}, {"error", {{"type", anthropic_type(error.status)}, {"message", error.what()}}}});
  }
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return to_text({{"error",
                   {{"message", error.what()},
                    {"type", openai_type(error.status)},
                    {"param", or_null(error.field)},
                    {"code", or_null(error.code)}}}});
}

std::string error_body(std::string_view path, const http::Refusal& refusal) {
  return error_body(path, ApiError(refusal.status, refusal.code, refusal.message));
}

void respond(http::Exchange& exchange, std::string_view path, const ApiError& error,
             std::vector<http::Header> more) {
  more.push_back({"Content-Type", "application/json"});
  if (error.retry_after_seconds > 0)
    more.push_back({"Retry-After", std::to_string(error.retry_after_seconds)});
  // Anthropic's clients know a full server by a number of its own.
  const bool full = error.status == 429 && below(path, "/v1/messages");
  exchange.respond(full ? 529 : error.status, std::move(more),
                   error_body(path, full ? ApiError(529, error.code, error.what()) : error));
}

}  // namespace slip::server::api
