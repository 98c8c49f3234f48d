// The prompts of `generate --prompts`: one JSON object per line, read, checked and encoded before any weight
// is loaded.
//
// {"prompt": TEXT} is trusted text: control tokens in it are control tokens. {"messages": [...], "tools":
// [...], "think": true} is a conversation in OpenAI's form: control tokens spelled out in it stay text. Both
// may have an "id" and "max_tokens"; other fields are for whoever made the file and are passed over.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "session/model.h"

namespace slip::cli {

struct BatchPrompt {
  nlohmann::ordered_json id;  // as given, else the line's number
  session::Prompt prompt;
  int max_tokens = 0;      // 0 = not given
  std::string where;       // "prompts.jsonl line 3", for messages
  int picture_tokens = 0;  // of its largest picture
};

/// Empty lines are passed over. `image_tokens`: of every picture, as in --image-tokens. Throws Error(kBadFile) that names the line.
std::vector<BatchPrompt> read_prompts(const std::string& file, const session::Model& model,
                                      std::optional<int> image_tokens = {});

/// The same from memory; `name` stands for the file in messages.
std::vector<BatchPrompt> parse_prompts(std::string_view text, const std::string& name,
                                       const session::Model& model, std::optional<int> image_tokens = {});

}  // namespace slip::cli
