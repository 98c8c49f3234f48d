// The answers of ollama's POST /api/chat: lines of JSON, or one.
#pragma once

#include <memory>

#include "server/api/chat_reply.h"

namespace slip::server::api {

struct OllamaReplyOptions {
  ChatReplyOptions chat = {};  // of one choice
  bool stream = false;
};

std::unique_ptr<ReplyWriter> ollama_reply(OllamaReplyOptions options);

/// "2026-11-19T20:15:30.000000Z".
std::string ollama_time(int64_t seconds);

}  // namespace slip::server::api
