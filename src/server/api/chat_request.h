// ChatRequest: what every API that holds a conversation asks for, read and checked: the conversation, how it is
// rendered, and how the answer is made. Here with the reader of POST /v1/chat/completions. Nothing that was sent is
// dropped silently and answered anyway.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/generation_fields.h"
#include "server/api/image_parts.h"
#include "session/model.h"
#include "text/conversation.h"

namespace slip::server::api {

struct ChatRequest {
  GenerationFields common;
  text::Conversation conversation = {};  // its tools are empty with tool_choice "none"
  session::ChatOptions options = {};
  bool parallel_tool_calls = true;
  ImageList images = {};
  std::optional<int> image_tokens = {};    // of every picture that does not say
  std::vector<std::string> warnings = {};  // for the answer and the log: what was asked and is not enforced
  std::vector<std::string> notes = {};     // for the log alone: what was left out
};

/// What a reader of requests must know of the model.
struct Reading {
  int vocab = 0;
  bool sees = false;
};

/// `sent` is the body's text, of which templates see keys in order and 2.0 beside 2; without it keys come sorted.
/// Throws ApiError.
ChatRequest read_chat(const nlohmann::json& body, const Reading& reading, std::string_view sent = {});

/// What all of them end with: at least one token is wanted (`field` names the length), told apart as a chat's reply.
void require_answer(ChatRequest& request, const char* field);

/// The messages, tools and prompt options alone, for routes that only render: into `request`, whose images say whether
/// the model sees. Throws ApiError.
void read_conversation(const nlohmann::json& body, ChatRequest& request, std::string_view sent = {});

}  // namespace slip::server::api
