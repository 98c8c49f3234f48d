// PackedWeights: all matrices of a model in kernel layout, in one piece of memory, in the order a step reads
// them.
#pragma once

#include <functional>
#include <vector>

#include "backend/cpu/packed_matrix.h"
#include "model/config.h"
#include "model/weights.h"

namespace slip::backend::cpu {

struct PackedExpert {
  PackedMatrix gate, up;  // one stream, panel by panel
  PackedMatrix down;
};

struct PackedLayer {
  PackedMatrix q, k, v, o;
  PackedMatrix gate, up;  // one stream, panel by panel
  PackedMatrix down;
  PackedMatrix router;
  std::vector<PackedExpert> experts;
  PackedMatrix per_layer_gate, per_layer_projection;
};

struct PackedWeights {
  Buffer memory;
  std::vector<PackedLayer> layers;
  PackedMatrix per_layer_projection;
  PackedMatrix head;
  bool any_affine = false;
};

PackedWeights pack_weights(const model::Config& config, const model::Weights& weights, ThreadPool& pool,
                           const std::function<void(double)>& progress);

}  // namespace slip::backend::cpu
