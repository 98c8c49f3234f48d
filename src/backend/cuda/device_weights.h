// DeviceWeights: a network's matrices in the layout of the kernels and its small vectors, in device memory.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/cuda/gpu.h"
#include "backend/cuda/packed_matrix.h"
#include "base/thread_pool.h"
#include "model/assistant.h"
#include "model/config.h"
#include "model/dflash.h"
#include "model/weights.h"

namespace slip::backend::cuda {

struct DeviceLayer {
  PackedMatrix q, k, v, o;
  PackedMatrix gate_up;  // a pair
  PackedMatrix down;
  PackedMatrix router;
  PackedMatrix expert_gate_up, expert_down;  // stacks
  PackedMatrix per_layer_gate, per_layer_projection;
};

struct DeviceWeights {
  DeviceMemory matrices, vectors;
  std::vector<DeviceLayer> layers;
  PackedMatrix per_layer_projection;
  PackedMatrix head;
  // Draft networks only.
  PackedMatrix pre_projection, post_projection, centroids, fc;
  PackedMatrix clusters;  // a stack: the head in the order of the centroids, instead of `head`
  std::unordered_map<const float*, const float*> copies;  // of vectors, by where the host has them

  /// The device's copy of a vector of the model; null for an empty one.
  const float* vector(const model::Vector& host) const {
    return host.empty() ? nullptr : copies.at(host.data());
  }
  size_t bytes() const { return matrices.size() + vectors.size(); }
};

/// Where weights are loaded to, and how.
struct LoadingTo {
  Gpu& gpu;
  ThreadPool& pool;
  std::optional<RowsAs> rows_as;  // CudaOptions::rows_as
};
/// Packs and copies. Throws Error(kOutOfMemory) before it starts when it does not fit.
DeviceWeights load_weights(const LoadingTo& to, const model::Config& config, const model::Weights& weights,
                           const std::function<void(double)>& progress);
DeviceWeights load_weights(const LoadingTo& to, const model::AssistantConfig& config,
                           const model::AssistantWeights& weights);
DeviceWeights load_weights(const LoadingTo& to, const model::DflashConfig& config,
                           const model::DflashWeights& weights);

}  // namespace slip::backend::cuda
