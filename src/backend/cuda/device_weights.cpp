#include "backend/cuda/device_weights.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/pack.h"
#include "base/buffer.h"
#include "base/error.h"

namespace slip::backend::cuda {
namespace {

using model::Vector;
using tensor::Matrix;

// Tiles are packed on the host and copied in pieces of this size.
constexpr size_t kPieceBytes = size_t{64} << 20;

/// One matrix, pair or stack to pack once memory is there.
struct Task {
  const Matrix* source;
  const Matrix* other;
  PackedMatrix* target;
  size_t place;  // in the matrices' memory
};

/// Lists what a network has, in the order a step reads it.
class Listing {
 public:
  Listing(DeviceWeights& weights, RowsAs rows_as) : weights_(weights), rows_as_(rows_as) {}

  void decoder(const model::Config& config, const model::Weights& weights) {
    one(weights.per_layer_projection, weights_.per_layer_projection);
    layers(config, weights);
    one(weights.output_head(), weights_.head);
    vectors_.push_back(&weights.per_layer_norm);
    vectors_.push_back(&weights.final_norm);
  }
  void assistant(const model::AssistantConfig& config, const model::AssistantWeights& weights,
                 const Matrix& ordered_head) {
    sliced(weights.pre_projection, weights_.pre_projection);
    layers(config.text, weights.text);
    one(weights.centroids, weights_.centroids);
    if (config.centroids == 0) {
      one(weights.text.embed, weights_.head);
    } else {
      stack(ordered_head, nullptr, ordered_head.rows / config.centroids, weights_.clusters);
    }
    one(weights.post_projection, weights_.post_projection);
    vectors_.push_back(&weights.text.final_norm);
  }
  void dflash(const model::DflashConfig& config, const model::DflashWeights& weights) {
    sliced(weights.fc, weights_.fc);
    layers(config.text, weights.text);
    vectors_.push_back(&weights.context_norm);
    vectors_.push_back(&weights.text.final_norm);
  }

  size_t bytes() const { return used_; }
  const std::vector<Task>& tasks() const { return tasks_; }
  const std::vector<const Vector*>& vectors() const { return vectors_; }

 private:
  void one(const Matrix& source, PackedMatrix& target) {
    if (source.present()) stack(source, nullptr, source.rows, target);
  }
  void sliced(const Matrix& source, PackedMatrix& target) {
    if (source.present()) place(source, nullptr, plan_sliced(source, rows_as_), target);
  }
  void stack(const Matrix& source, const Matrix* other, int64_t rows, PackedMatrix& target) {
    place(source, other, plan(source, rows, other, rows_as_), target);
  }
  void place(const Matrix& source, const Matrix* other, const PackedMatrix& layout, PackedMatrix& target) {
    target = layout;
    used_ = (used_ + 255) / 256 * 256;
    tasks_.push_back({&source, other, &target, used_});
    used_ += target.bytes();
  }
  void layers(const model::Config& config, const model::Weights& weights) {
    weights_.layers.resize(config.layers.size());
    for (size_t i = 0; i < config.layers.size(); ++i) layer(config, weights.layers[i], weights_.layers[i]);
  }
  void layer(const model::Config& config, const model::LayerWeights& source, DeviceLayer& target) {
    one(source.q, target.q);
    one(source.k, target.k);
    one(source.v, target.v);
    sliced(source.o, target.o);
    stack(source.gate, &source.up, source.gate.rows, target.gate_up);
    one(source.moe.router, target.router);
    if (config.experts > 0) {
      stack(source.moe.gate, &source.moe.up, config.expert_intermediate, target.expert_gate_up);
      stack(source.moe.down, nullptr, config.hidden, target.expert_down);
    }
    config.experts > 0 ? one(source.down, target.down) : sliced(source.down, target.down);
    one(source.per_layer.gate, target.per_layer_gate);
    one(source.per_layer.projection, target.per_layer_projection);
    for (const Vector* vector :
         {&source.input_norm, &source.post_attention_norm, &source.pre_mlp_norm, &source.post_mlp_norm,
          &source.q_norm, &source.k_norm, &source.moe.router_scale, &source.moe.per_expert_scale,
          &source.moe.pre_norm, &source.moe.post_norm_dense, &source.moe.post_norm,
          &source.per_layer.post_norm})
      vectors_.push_back(vector);
  }

  DeviceWeights& weights_;
  const RowsAs rows_as_;
  std::vector<Task> tasks_;
  std::vector<const Vector*> vectors_;
  size_t used_ = 0;
};

void copy_vectors(Gpu& gpu, const Listing& listing, DeviceWeights& weights) {
  Carver counter;
  for (const Vector* vector : listing.vectors()) counter.allocate<float>(vector->size());
  weights.vectors = DeviceMemory(counter.used(), "the norms of the model");
  std::vector<std::byte> host(weights.vectors.size());
  Carver placer(host.data());
  for (const Vector* vector : listing.vectors()) {
    float* place = placer.allocate<float>(vector->size());
    if (vector->empty()) continue;
    std::memcpy(place, vector->data(), vector->size() * sizeof(float));
    const auto offset = reinterpret_cast<std::byte*>(place) - host.data();
    weights.copies[vector->data()] = reinterpret_cast<const float*>(weights.vectors.data() + offset);
  }
  gpu.to_device(weights.vectors.data(), host.data(), host.size());
  gpu.finish();
}

/// Eleven bits of every value of a row keep the logits of dense models within 0.3 % where 16 bits keep them
/// within 0.02 (the golden cases, whose random layers amplify every rounding), and a bf16 cache moves them as
/// much. But a router compares: where two experts are close, such a difference chooses the other one, and the
/// rest of the answer is another. So models with experts keep 16 bits.
RowsAs rows_for(const model::Config& config, std::optional<RowsAs> wanted) {
  if (config.experts == 0) return wanted.value_or(RowsAs::kHalves);
  if (wanted == RowsAs::kHalves)
    fail_usage("a model with experts has no activations of 11 bits on a GPU; use 16 (--activations 16)");
  return RowsAs::kPairs;
}

DeviceWeights load(const LoadingTo& to, const model::Config& config,
                   const std::function<void(Listing&)>& describe,
                   const std::function<void(double)>& progress) {
  DeviceWeights weights;
  Gpu& gpu = to.gpu;
  Listing listing(weights, rows_for(config, to.rows_as));
  describe(listing);
  weights.matrices = DeviceMemory(listing.bytes(), "the weights");
  copy_vectors(gpu, listing, weights);
  // Two pieces, so that one is copied while the other is packed.
  PinnedMemory pieces[2] = {{kPieceBytes, "loading"}, {kPieceBytes, "loading"}};
  int piece = 0;
  size_t done = 0;
  for (const Task& task : listing.tasks()) {
    PackedMatrix& packed = *task.target;
    std::byte* place = weights.matrices.data() + task.place;
    packed.data = place;
    const auto tile = static_cast<size_t>(packed.tile_bytes);
    const int64_t tiles = int64_t{packed.tiles} * packed.count * packed.slices;
    const auto at_once = static_cast<int64_t>(std::max<size_t>(1, kPieceBytes / tile));
    if (tile > kPieceBytes) fail(ErrorKind::kRuntime, "{}: has rows too long to load", task.source->name);
    for (int64_t first = 0; first < tiles; first += at_once) {
      const int64_t end = std::min(tiles, first + at_once);
      pack(*task.source, task.other, packed, first, end, pieces[piece].data(), to.pool);
      gpu.finish();  // the copy before, of the other piece
      for (const PackedRange& range : ranges_of(packed, first, end))
        gpu.to_device(place + range.device, pieces[piece].data() + range.host,
                      static_cast<size_t>(range.bytes));
      piece = 1 - piece;
      done += static_cast<size_t>(end - first) * tile;
      if (progress) progress(static_cast<double>(done) / static_cast<double>(listing.bytes()));
    }
  }
  gpu.finish();
  return weights;
}

}  // namespace

DeviceWeights load_weights(const LoadingTo& to, const model::Config& config, const model::Weights& weights,
                           const std::function<void(double)>& progress) {
  return load(
      to, config, [&](Listing& listing) { listing.decoder(config, weights); }, progress);
}

DeviceWeights load_weights(const LoadingTo& to, const model::AssistantConfig& config,
                           const model::AssistantWeights& weights) {
  Matrix ordered_head = weights.text.embed;
  if (config.centroids > 0) ordered_head.order = weights.ordering.data();
  return load(to, config.text, [&](Listing& listing) { listing.assistant(config, weights, ordered_head); },
              {});
}

DeviceWeights load_weights(const LoadingTo& to, const model::DflashConfig& config,
                           const model::DflashWeights& weights) {
  return load(to, config.text, [&](Listing& listing) { listing.dflash(config, weights); }, {});
}

}  // namespace slip::backend::cuda
