// The tools of a request to /v1/responses: see responses_request.h.
#pragma once

#include "server/api/responses_request.h"

namespace slip::server::api {

/// Reads "tools" and "tool_choice" into the request. Throws ApiError.
void read_responses_tools(const Fields& body, ResponsesRequest& request);
/// What the model calls a tool of a namespace.
std::string full_name(std::string_view space, std::string_view name);
/// The arguments of a custom tool's call, whose input is a text.
nlohmann::json custom_arguments(std::string input);

}  // namespace slip::server::api
