// The vision part of config.json -> model::VisionConfig. Pure: text in, struct out. What Hugging Face assumes
// where the file is silent is assumed here; what slipstream does not compute is refused by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/quantization.h"
#include "model/config.h"
#include "model/vision.h"

namespace slip::checkpoint {

/// What stands for pictures in a prompt: an image is begin_image, a placeholder for each of its soft rows,
/// end_image.
struct MediaTokens {
  int image = 0;  // the placeholder, and the mark that a chat template writes
  int video = 0;  // likewise, of a video's frames
  int begin_image = 0;
  int end_image = 0;
};

struct ParsedVision {
  model::VisionConfig config;
  MediaTokens tokens;
  bool clipped = false;  // every product of the layers has four bounds in the file
  Quantization quantization;
};

/// Nothing where the file has no vision_config: the model reads text alone. Throws Error(kBadFile) with a
/// sentence that names `file` and the field.
std::optional<ParsedVision> parse_vision_config(std::string_view text, const std::string& file,
                                                const model::Config& decoder);

}  // namespace slip::checkpoint
