// CompletionRequest: the body of POST /v1/completions, read and checked: raw prompts, as text or ids.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "server/api/generation_fields.h"
#include "session/prompt.h"

namespace slip::server::api {

inline constexpr size_t kMostPrompts = 128;

struct CompletionRequest {
  GenerationFields common;
  std::vector<std::variant<std::string, std::vector<int>>> prompts = {};
  session::RawOptions raw = {};  // of prompts that are text
  bool echo = false;
  bool no_answer = false;  // max_tokens 0: the prompt alone is wanted
};

/// Throws ApiError.
CompletionRequest read_completion(const nlohmann::json& body, int vocab);

}  // namespace slip::server::api
