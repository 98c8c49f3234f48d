// generation_config.json: the sampling settings and stop ids that a model's makers recommend. The file is
// optional, and so is every field in it; what is there must make sense, because these become the defaults of
// every request.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"

namespace slip::checkpoint {

/// Pure. Ids are checked against the model's vocabulary; stop ids it does not give come from `config`.
GenerationConfig parse_generation_config(std::string_view text, const std::string& file,
                                         const model::Config& config);

/// Reads <folder>/generation_config.json if it is there.
GenerationConfig read_generation_config(const std::string& folder, const model::Config& config);

}  // namespace slip::checkpoint
