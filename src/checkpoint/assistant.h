// AssistantCheckpoint: the folder of a Gemma 4 assistant opened, understood and fitted to its target; nothing
// loaded yet. As with Checkpoint, matrices are views of its files (or of memory it owns, after requantise()),
// so it must outlive the packing. The target is only asked for its Config and may go.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "model/assistant.h"

namespace slip::checkpoint {

struct AssistantCheckpoint : CheckpointFiles {
  model::AssistantConfig config;
  model::AssistantWeights weights;
};

/// Throws Error(kBadFile): the folder is damaged, is no assistant, or is the assistant of another model.
std::unique_ptr<AssistantCheckpoint> open_assistant(const std::string& folder, const model::Config& target);

class TensorBinder;
/// The weights of a fitted assistant: its layers borrow their KV, so no k or v is asked for. Throws
/// Error(kBadFile).
model::AssistantWeights bind_assistant(TensorBinder& binder, const model::AssistantConfig& config);

}  // namespace slip::checkpoint
