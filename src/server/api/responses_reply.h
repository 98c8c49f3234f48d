// The answers of POST /v1/responses: one list of output items, told event by event or whole at the end. A whole answer is
// made by the same steps with the events left out, so the two cannot differ.
#pragma once

#include <memory>

#include "server/api/chat_reply.h"
#include "server/api/responses_request.h"

namespace slip::server::api {

struct ResponsesReplyOptions {
  ChatReplyOptions chat = {};  // of one choice
  bool stream = false;
  std::vector<ResponsesTool> tools = {};
  bool summary = false, encrypted = false;  // of thoughts; see ResponsesRequest
  nlohmann::json asked = {};
};

std::unique_ptr<ReplyWriter> responses_reply(ResponsesReplyOptions options);

}  // namespace slip::server::api
