#include "backend/cpu/packed_weights.h"

namespace slip::backend::cpu {

namespace {

/// One matrix to pack once memory is there.
struct Job {
  const tensor::Matrix* source;
  int64_t first_row;
  PackedMatrix* target;
};

/// Walks the model in the order a step reads it, planning every matrix and listing the packing jobs. Called
/// twice: to count bytes, and to place.
class Walk {
 public:
  Walk(const model::Config& config, const model::Weights& weights, PackedWeights& packed, Carver& carver)
      : config_(config), weights_(weights), packed_(packed), carver_(carver) {}

  std::vector<Job> run() {
    packed_.layers.resize(config_.layers.size());
    one(weights_.per_layer_projection, packed_.per_layer_projection);
    for (size_t i = 0; i < config_.layers.size(); ++i) layer(weights_.layers[i], packed_.layers[i]);
    one(weights_.output_head(), packed_.head);
    return std::move(jobs_);
  }

 private:
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

  void layer(const model::LayerWeights& source, PackedLayer& target) {
    one(source.q, target.q);
    one(source.k, target.k);
    one(source.v, target.v);
    one(source.o, target.o);
    pair(source.gate, source.up, 0, source.gate.rows, target.gate, target.up);
    one(source.moe.router, target.router);
    one(source.down, target.down);
    target.experts.resize(static_cast<size_t>(config_.experts));
    for (int e = 0; e < config_.experts; ++e) {
      PackedExpert& expert = target.experts[static_cast<size_t>(e)];
      const int64_t inner = config_.expert_intermediate;
      pair(source.moe.gate, source.moe.up, e * inner, inner, expert.gate, expert.up);
      part(source.moe.down, int64_t{e} * config_.hidden, config_.hidden, expert.down);
      place(expert.down, carver_);
    }
    one(source.per_layer.gate, target.per_layer_gate);
    one(source.per_layer.projection, target.per_layer_projection);
  }

  const model::Config& config_;
  const model::Weights& weights_;
  PackedWeights& packed_;
  Carver& carver_;
  std::vector<Job> jobs_;
};

}  // namespace

PackedWeights pack_weights(const model::Config& config, const model::Weights& weights, ThreadPool& pool,
                           const std::function<void(double)>& progress) {
  PackedWeights packed;
  Carver counter;
  Walk(config, weights, packed, counter).run();
  // Kernels fetch a little ahead of what they read; a fetch past the end is harmless but should be ours.
  packed.memory = Buffer(counter.used() + 4096, "the weights");

  Carver placer(packed.memory.data());
  const std::vector<Job> jobs = Walk(config, weights, packed, placer).run();
  size_t done = 0;
  for (const Job& job : jobs) {
    pack(*job.source, job.first_row, *job.target, pool);
    done += job.target->bytes();
    if (progress) progress(static_cast<double>(done) / static_cast<double>(counter.used()));
  }
  return packed;
}

}  // namespace slip::backend::cpu
