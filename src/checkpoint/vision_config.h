// The vision part of config.json -> model::VisionConfig. Pure: text in, struct out. What Hugging Face assumes
// where the file is silent is assumed here; what slipstream does not compute is refused by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/quantization.h"
#include "model/vision.h"

namespace slip::checkpoint {

struct ParsedVision {
  model::VisionConfig config;
  bool clipped = false;  // every product of the layers has four bounds in the file
  Quantization quantization;
};

/// Nothing where the file has no vision_config: the model reads text alone. Throws Error(kBadFile) with a
/// sentence that names `file` and the field.
std::optional<ParsedVision> parse_vision_config(std::string_view text, const std::string& file,
                                                int text_hidden);

}  // namespace slip::checkpoint
