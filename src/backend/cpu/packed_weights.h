// PackedWeights: all matrices of a model in kernel layout, in one piece of memory, in the order a step reads
// them.
#pragma once

#include <functional>
#include <vector>

#include "backend/cpu/packed_matrix.h"
#include "model/assistant.h"
#include "model/config.h"
#include "model/dflash.h"
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
  // Draft networks only.
  PackedMatrix pre_projection, post_projection, centroids;
  std::vector<PackedMatrix> clusters;  // the head in the order of the centroids, instead of `head`
  PackedMatrix fc;
  bool any_affine = false;
};

PackedWeights pack_weights(const model::Config& config, const model::Weights& weights, ThreadPool& pool,
                           const std::function<void(double)>& progress);
PackedWeights pack_weights(const model::AssistantConfig& config, const model::AssistantWeights& weights,
                           ThreadPool& pool);
PackedWeights pack_weights(const model::DflashConfig& config, const model::DflashWeights& weights,
                           ThreadPool& pool);

}  // namespace slip::backend::cpu
