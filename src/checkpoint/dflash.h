// DflashCheckpoint: the folder of a DFlash drafter opened, understood and fitted to its target; nothing
// loaded yet. As with Checkpoint, matrices are views of its files (or of memory it owns, after requantise()),
// so it must outlive the packing. The target is only asked for its Config and may go.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"
#include "model/dflash.h"

namespace slip::checkpoint {

struct DflashCheckpoint : CheckpointFiles {
  model::DflashConfig config;
  model::DflashWeights weights;
};

/// Throws Error(kBadFile): the folder is damaged, is no DFlash drafter, is one of another family, or was made
/// for another model.
std::unique_ptr<DflashCheckpoint> open_dflash(const std::string& folder, const model::Config& target);

}  // namespace slip::checkpoint
