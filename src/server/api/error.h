// ApiError: a request that cannot be answered as asked, on its way to the client: an HTTP status, and what the error
// object of the API that was spoken says. Thrown while a request is read; written once it is caught.
//
// Every API has a shape of its own for errors, and clients choose their exception class by it. error_body() is the one
// place that knows the shapes; the HTTP layer uses it for its refusals too.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "server/http/exchange.h"

namespace slip::server::api {

class ApiError : public std::runtime_error {
 public:
  ApiError(int http_status, std::string error_code, const std::string& message, std::string path = {})
      : std::runtime_error(message),
        status(http_status),
        code(std::move(error_code)),
        field(std::move(path)) {}

  int status;
  std::string code;             // "context_length_exceeded"; empty: none
  std::string field;            // the path of the field that is wrong: "messages[2].content"; empty: none
  int retry_after_seconds = 0;  // 0: no header
};

/// 400 for a field of a wrong type or range.
template <typename... Args>
[[noreturn]] void fail_field(const std::string& field, fmt::format_string<Args...> format, Args&&... args) {
  throw ApiError(400, "invalid_value", field + ": " + fmt::format(format, std::forward<Args>(args)...),
                 field);
}

/// 400 for what is known, but cannot be done (yet).
template <typename... Args>
[[noreturn]] void fail_unsupported(const std::string& field, fmt::format_string<Args...> format,
                                   Args&&... args) {
  throw ApiError(400, "unsupported_value", field + ": " + fmt::format(format, std::forward<Args>(args)...),
                 field);
}

/// What the rooms below throw. A message that begins with a place ("messages[2].content: ...") names the field.
ApiError api_error(const std::exception& error);

/// The error object of the API that `path` belongs to: OpenAI's, Anthropic's below /v1/messages, ollama's below /api/.
std::string error_body(std::string_view path, const ApiError& error);
std::string error_body(std::string_view path, const http::Refusal& refusal);

/// Answers with the error object, and Retry-After where there is one.
void respond(http::Exchange& exchange, std::string_view path, const ApiError& error,
             std::vector<http::Header> more = {});

}  // namespace slip::server::api
