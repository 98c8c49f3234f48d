// The body of ollama's POST /api/chat, read and checked. Its calls have no ids, its options stand in an object of their
// own, and it streams unless it is told not to.
#pragma once

#include "server/api/chat_request.h"

namespace slip::server::api {

/// Throws ApiError.
ChatRequest read_ollama_chat(const nlohmann::json& body, const Reading& reading);

}  // namespace slip::server::api
