// The body of POST /v1/messages (Anthropic's API), read and checked into what every conversation asks for.
//
// Claude Code decides what must be read: system messages anywhere, a billing header that changes from session to session
// and would cost every prefix (dropped), blocks and tools nobody here knows (left out, with a line of log), fields such
// as cache_control and context_management (ignored; they never change the prompt).
#pragma once

#include "server/api/chat_request.h"

namespace slip::server::api {

/// Throws ApiError.
ChatRequest read_messages(const nlohmann::json& body, const Reading& reading);
/// The conversation alone: for counting tokens. Throws ApiError.
ChatRequest read_counted_messages(const nlohmann::json& body, const Reading& reading);

}  // namespace slip::server::api
