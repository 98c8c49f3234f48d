// config.json -> model::Config. The file has two spellings for the full layers' head sizes, nested and flat
// layouts, nulls for defaults and rules that live only in Hugging Face's code; all of that ends here, in a
// Config whose layers say plainly what they are. Pure: text in, struct out, so a fuzzer can drive it. Sizes
// are capped so that no product of them overflows 64 bits.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/quantization.h"
#include "model/config.h"

namespace slip::checkpoint {

class JsonObject;

struct ParsedConfig {
  model::Config config;
  Quantization quantization;
  bool tied_head = true;  // the embedding is also the output head
};

/// Throws Error(kBadFile) with a sentence that names `file` and the field.
ParsedConfig parse_config(std::string_view text, const std::string& file);

/// The text part of an assistant's config.json: the same fields under the same names. No layer owns a cache:
/// kv_source is -1 until fit_assistant() has found its layer of the target.
model::Config parse_assistant_text(const JsonObject& text);

}  // namespace slip::checkpoint
