// A DFlash drafter's config.json -> model::DflashConfig, fitted to its target, from which it borrows the
// embedding, the head and the states it reads. Of the families that share the name, z-lab's is the one read
// here: Qwen3-like layers, no embedding of their own. Pure: text and structs in, structs out.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/quantization.h"
#include "model/dflash.h"

namespace slip::checkpoint {

struct ParsedDflash {
  model::DflashConfig config;
  Quantization quantization;
};

/// Throws Error(kBadFile) with a sentence that names `file` and the field, or both numbers where the drafter
/// and the target disagree.
ParsedDflash parse_dflash_config(std::string_view text, const std::string& file, const model::Config& target);

/// Of drafters that cannot be used, for messages.
constexpr const char* kDflashFamily =
    "slipstream runs z-lab's family of DFlash drafters (DFlashDraftModel, which borrows the embeddings of "
    "its "
    "model)";

}  // namespace slip::checkpoint
