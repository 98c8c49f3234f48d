// The JSON that stands beside the tensors of a written checkpoint, in the spelling of Hugging Face: the
// resolved Config goes back to the few numbers and flags it came from, the quantisation table is read off the
// bound matrices.
#pragma once

#include <string>

#include "synth/synthetic.h"

namespace slip::synth {

/// How config.json says that full-attention layers have their own head size and KV heads.
enum class ConfigSpelling {
  kPerLayer,  // "per_layer_config": {"4": {"head_dim": 512}}, transformers 5.15 and later
  kGlobal,    // "global_head_dim", "num_global_key_value_heads"
};

/// The text of config.json. Throws Error(kUsage) for a Config that the spelling cannot express.
std::string config_text(const Checkpoint& checkpoint, ConfigSpelling spelling);

/// The text of generation_config.json.
std::string generation_text(const Checkpoint& checkpoint);

/// The same two for an assistant.
std::string assistant_config_text(const AssistantCheckpoint& assistant, ConfigSpelling spelling);
std::string assistant_generation_text(const AssistantCheckpoint& assistant);

}  // namespace slip::synth
