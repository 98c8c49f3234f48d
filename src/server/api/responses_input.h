// The items of a request to /v1/responses as a conversation: messages, calls, their outputs, thoughts.
#pragma once

#include "server/api/responses_request.h"

namespace slip::server::api {

/// Reads "instructions" and "input" into the request. Throws ApiError.
void read_responses_input(const Fields& body, ResponsesRequest& request);

}  // namespace slip::server::api
