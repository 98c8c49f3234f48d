// PackedVision: the matrices of a vision tower in kernel layout (packed_matrix.h), in one piece of memory, in
// the order a pass reads them. Norms, bounds and the position table stay with the weights.
#pragma once

#include <vector>

#include "backend/cpu/packed_matrix.h"
#include "model/vision.h"

namespace slip::backend::cpu {

struct PackedVisionLayer {
  PackedMatrix q, k, v, o, gate, up, down;
};

struct PackedVision {
  Buffer memory;
  PackedMatrix patch;
  std::vector<PackedVisionLayer> layers;
  PackedMatrix projection;
};

PackedVision pack_vision(const model::VisionWeights& weights, ThreadPool& pool);

}  // namespace slip::backend::cpu
