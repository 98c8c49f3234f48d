// An assistant's config.json -> model::AssistantConfig, and its fit to a target. Its file describes the
// caches it reads as if they were its own; fit_assistant() compares that with the target, number by number,
// because an assistant of another model would draft nonsense at full cost. Pure: text and structs in, structs
// out.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/quantization.h"
#include "model/assistant.h"

namespace slip::checkpoint {

struct ParsedAssistant {
  model::AssistantConfig config;  // not fitted: kv_source of every layer is -1
  Quantization quantization;
};

/// Throws Error(kBadFile) with a sentence that names `file` and the field.
ParsedAssistant parse_assistant_config(std::string_view text, const std::string& file);

/// Points the layers at the caches of the target: each reads the last layer of its kind that owns one. Note
/// that Config::owns_kv() means nothing for the result, whose kv_source counts the target's layers. Throws
/// Error(kBadFile) when the assistant belongs to another model, naming both numbers that disagree.
model::AssistantConfig fit_assistant(model::AssistantConfig config, const model::Config& target,
                                     const std::string& file);

}  // namespace slip::checkpoint
