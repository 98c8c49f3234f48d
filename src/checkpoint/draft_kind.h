// What kind of network a folder holds, from its config.json alone: a path given as a draft model may be an
// assistant or a DFlash drafter, and people mix them up with the model itself. A kind is a guess at what the
// folder is meant to be; open_assistant() and open_dflash() then say whether it can be used.
#pragma once

#include <string>

namespace slip::checkpoint {

class JsonObject;

enum class DraftKind {
  kAssistant,  // Gemma 4's own drafter
  kDflash,     // a block drafter, of a family that slipstream runs or not
  kTarget,     // a Gemma 4 model
  kUnknown,
};

/// Throws Error(kBadFile) when there is no folder, no config.json in it, or that is no JSON object.
DraftKind kind_of_draft_folder(const std::string& folder);

DraftKind kind_of_config(const JsonObject& config);

/// Throws Error(kBadFile) with a sentence that says what the file describes instead of `wanted`.
void require_kind(const JsonObject& config, DraftKind wanted);

}  // namespace slip::checkpoint
