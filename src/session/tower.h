// Where a tower runs: on the backend of its target, or on the CPU beside a backend that has none. Rows from the CPU lie in
// the host's memory, which every backend takes.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace slip::session {

/// `weights` outlives it, and so does the backend. Throws Error(kOutOfMemory).
std::unique_ptr<backend::Encoder> load_tower(backend::Backend& backend, const model::VisionConfig& config,
                                             const model::VisionWeights& weights);

}  // namespace slip::session
