// The body of POST /v1/responses (OpenAI's newer API, Codex's only one), read and checked. Stateless: all of the
// conversation comes with every request, so what refers to something stored is a 400 that says so.
//
// Tools of several types come down to functions: those of a namespace are called "space.name", a custom tool takes one
// string. What runs on OpenAI's own servers (web_search and the like) is left out with a line of log.
#pragma once

#include "server/api/chat_request.h"

namespace slip::server::api {

/// What a tool is called in this API.
struct ResponsesTool {
  std::string name, space = {};  // space: of a namespace
  bool custom = false;           // its input is a text
};

struct ResponsesRequest {
  ChatRequest chat;
  std::vector<ResponsesTool> tools = {};  // one for each tool of the conversation
  bool summary = false;                   // thoughts are wanted as summaries
  bool encrypted = false;                 // thoughts are wanted in a form to be sent back
  nlohmann::json asked = {};              // fields that the answer repeats
};

/// Throws ApiError.
ResponsesRequest read_responses(const nlohmann::json& body, const Reading& reading);

/// How a thought is sent along, to come back: it is not encrypted, as nothing here is secret.
inline constexpr std::string_view kThoughtMark = "thought:";

}  // namespace slip::server::api
