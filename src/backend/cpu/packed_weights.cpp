#include "backend/cpu/packed_weights.h"

namespace slip::backend::cpu {

namespace {

/// One matrix to pack once memory is there.
struct Job {
  const tensor::Matrix* source;
  int64_t first_row;
  PackedMatrix* target;
};

/// Walks a network in the order a step reads it, planning every matrix and listing the packing jobs. Made
/// twice: to count bytes, and to place.
class Walk {
 public:
  Walk(PackedWeights& packed, Carver& carver) : packed_(packed), carver_(carver) {}

  void decoder(const model::Config& config, const model::Weights& weights) {
    one(weights.per_layer_projection, packed_.per_layer_projection);
    layers(config, weights);
    one(weights.output_head(), packed_.head);
  }

  void assistant(const model::AssistantConfig& config, const model::AssistantWeights& weights,
                 const tensor::Matrix& ordered_head) {
    one(weights.pre_projection, packed_.pre_projection);
    layers(config.text, weights.text);
    one(weights.centroids, packed_.centroids);
    if (config.centroids == 0) {
      one(weights.text.embed, packed_.head);
    } else {
      const int64_t size = ordered_head.rows / config.centroids;
      packed_.clusters.resize(static_cast<size_t>(config.centroids));
      for (int c = 0; c < config.centroids; ++c) {
        PackedMatrix& cluster = packed_.clusters[static_cast<size_t>(c)];
        part(ordered_head, c * size, size, cluster);
        place(cluster, carver_);
      }
    }
    one(weights.post_projection, packed_.post_projection);
  }

  void dflash(const model::DflashConfig& config, const model::DflashWeights& weights) {
    one(weights.fc, packed_.fc);
    layers(config.text, weights.text);
  }

  std::vector<Job> jobs() { return std::move(jobs_); }

 private:
  void layers(const model::Config& config, const model::Weights& weights) {
    packed_.layers.resize(config.layers.size());
    for (size_t i = 0; i < config.layers.size(); ++i) layer(config, weights.layers[i], packed_.layers[i]);
  }

  void one(const tensor::Matrix& source, PackedMatrix& target) {
    if (!source.present()) return;
    part(source, 0, source.rows, target);
    place(target, carver_);
  }

  void pair(const tensor::Matrix& a, const tensor::Matrix& b, int64_t first_row, int64_t rows,
            PackedMatrix& to_a, PackedMatrix& to_b) {
    part(a, first_row, rows, to_a);
    part(b, first_row, rows, to_b);
    place_interleaved(to_a, to_b, carver_);
  }

  void part(const tensor::Matrix& source, int64_t first_row, int64_t rows, PackedMatrix& target) {
    target = plan(source, rows);
    packed_.any_affine |= target.affine();
    jobs_.push_back({&source, first_row, &target});
  }

  void layer(const model::Config& config, const model::LayerWeights& source, PackedLayer& target) {
    one(source.q, target.q);
    one(source.k, target.k);
    one(source.v, target.v);
    one(source.o, target.o);
    pair(source.gate, source.up, 0, source.gate.rows, target.gate, target.up);
    one(source.moe.router, target.router);
    one(source.down, target.down);
    target.experts.resize(static_cast<size_t>(config.experts));
    for (int e = 0; e < config.experts; ++e) {
      PackedExpert& expert = target.experts[static_cast<size_t>(e)];
      const int64_t inner = config.expert_intermediate;
      pair(source.moe.gate, source.moe.up, e * inner, inner, expert.gate, expert.up);
      part(source.moe.down, int64_t{e} * config.hidden, config.hidden, expert.down);
      place(expert.down, carver_);
    }
    one(source.per_layer.gate, target.per_layer_gate);
    one(source.per_layer.projection, target.per_layer_projection);
  }

  PackedWeights& packed_;
  Carver& carver_;
  std::vector<Job> jobs_;
};

/// `describe` walks a network; `progress` may be empty.
PackedWeights pack_network(const std::function<void(Walk&)>& describe, ThreadPool& pool,
                           const std::function<void(double)>& progress) {
  PackedWeights packed;
  Carver counter;
  Walk count(packed, counter);
  describe(count);
  // Kernels fetch a little ahead of what they read; a fetch past the end is harmless but should be ours.
  packed.memory = Buffer(counter.used() + 16384, "the weights");

  Carver placer(packed.memory.data());
  Walk walk(packed, placer);
  describe(walk);
  size_t done = 0;
  for (const Job& job : walk.jobs()) {
    pack(*job.source, job.first_row, *job.target, pool);
    done += job.target->bytes();
    if (progress) progress(static_cast<double>(done) / static_cast<double>(counter.used()));
  }
  return packed;
}

}  // namespace

PackedWeights pack_weights(const model::Config& config, const model::Weights& weights, ThreadPool& pool,
                           const std::function<void(double)>& progress) {
  return pack_network([&](Walk& walk) { walk.decoder(config, weights); }, pool, progress);
}

PackedWeights pack_weights(const model::AssistantConfig& config, const model::AssistantWeights& weights,
                           ThreadPool& pool) {
  tensor::Matrix ordered_head = weights.text.embed;
  if (config.centroids > 0) ordered_head.order = weights.ordering.data();
  return pack_network([&](Walk& walk) { walk.assistant(config, weights, ordered_head); }, pool, {});
}

PackedWeights pack_weights(const model::DflashConfig& config, const model::DflashWeights& weights,
                           ThreadPool& pool) {
  return pack_network([&](Walk& walk) { walk.dflash(config, weights); }, pool, {});
}

}  // namespace slip::backend::cpu
