#include "session/model_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/program.h"

namespace slip::session {
namespace {

using model::Matrix;

// The rows of the widest step a prompt runs in: sliding layers keep so many positions more while it is read.
constexpr int kStepRows = 512;

std::string format_of(const Matrix& matrix) {
  if (matrix.encoding == tensor::Encoding::kAffine) return fmt::format("{}-bit", matrix.bits);
  return matrix.bits == 32 ? "f32" : matrix.weight->dtype() == tensor::DType::kF16 ? "f16" : "bf16";
}

size_t stored_bytes(const Matrix& matrix) {
  size_t bytes = 0;
  for (const tensor::StoredTensor* part : {matrix.weight, matrix.scales, matrix.biases}) {
    if (part != nullptr) bytes += part->bytes();
  }
  return bytes;
}

class GroupBuilder {
 public:
  explicit GroupBuilder(std::string name, bool mapped = false) {
    group_.name = std::move(name);
    group_.mapped = mapped;
  }

  void add(const Matrix& matrix) {
    if (!matrix.present()) return;
    ++group_.matrices;
    group_.parameters += matrix.rows * matrix.cols;
    group_.bytes += group_.mapped ? stored_bytes(matrix) : model::streamed_bytes(matrix);
    formats_.insert(format_of(matrix));
  }
  /// Appends the group unless it is empty.
  void finish(std::vector<WeightGroup>& groups) {
    if (group_.matrices == 0) return;
    group_.formats = fmt::format("{}", fmt::join(formats_, ", "));
    groups.push_back(std::move(group_));
  }

 private:
  WeightGroup group_;
  std::set<std::string> formats_;
};

std::vector<WeightGroup> group_weights(const model::Weights& weights) {
  // A tied embedding is packed, as the head; its rows and the per-layer table are looked up in the files.
  const bool tied = !weights.head.present();
  GroupBuilder embedding(tied ? "embedding, head" : "embedding", !tied), head("head");
  GroupBuilder table("per-layer table", true), mixing("per-layer mixing");
  GroupBuilder attention("attention"), mlp("mlp"), router("router"), experts("experts");
  embedding.add(weights.embed);
  head.add(weights.head);
  table.add(weights.per_layer_embed);
  mixing.add(weights.per_layer_projection);
  for (const model::LayerWeights& layer : weights.layers) {
    for (const Matrix* matrix : {&layer.q, &layer.k, &layer.v, &layer.o}) attention.add(*matrix);
    for (const Matrix* matrix : {&layer.gate, &layer.up, &layer.down}) mlp.add(*matrix);
    router.add(layer.moe.router);
    for (const Matrix* matrix : {&layer.moe.gate, &layer.moe.up, &layer.moe.down}) experts.add(*matrix);
    for (const Matrix* matrix : {&layer.per_layer.gate, &layer.per_layer.projection}) mixing.add(*matrix);
  }
  std::vector<WeightGroup> groups;
  for (GroupBuilder* group : {&embedding, &head, &attention, &mlp, &router, &experts, &table, &mixing}) {
    group->finish(groups);
  }
  return groups;
}

int64_t active_parameters(const model::Config& config, const std::vector<WeightGroup>& groups) {
  int64_t active = 0;
  for (const WeightGroup& group : groups) {
    if (group.mapped) continue;
    active += group.name == "experts" ? group.parameters / config.experts * config.experts_per_token
                                      : group.parameters;
  }
  return active;
}

}  // namespace

size_t packed_bytes(const model::Weights& weights) {
  size_t bytes = 0;
  for (const WeightGroup& group : group_weights(weights)) bytes += group.mapped ? 0 : group.bytes;
  return bytes;
}

ModelReport report_on(const checkpoint::Checkpoint& checkpoint) {
  const model::Config& config = checkpoint.config;
  ModelReport report;
  report.parameters = static_cast<int64_t>(model::parameters(config));
  report.groups = group_weights(checkpoint.weights);
  report.active_parameters = active_parameters(config, report.groups);
  for (const WeightGroup& group : report.groups) report.packed_bytes += group.mapped ? 0 : group.bytes;
  report.streamed_bytes = model::build_program(config, checkpoint.weights).streamed_bytes();

  const kv::Layout layout(config, kv::Storage::kBf16, kStepRows);
  for (const int64_t positions : {int64_t{1} << 10, int64_t{1} << 13, int64_t{1} << 15, int64_t{1} << 17}) {
    if (positions > config.max_positions) break;
    report.caches.push_back({positions, layout.bytes_at(positions), layout.bytes_read_at(positions - 1)});
  }
  return report;
}

size_t memory_needed(const ModelReport& report, const model::Config& config, int64_t context,
                     kv::Storage storage) {
  const kv::Layout layout(config, storage, kStepRows);
  // A step's activations: per row some vectors of the widest layer, and a few rows of logits. Program and
  // tables on top.
  int widest = config.hidden;
  for (const auto& layer : config.layers) widest = std::max({widest, layer.intermediate, layer.q_size()});
  const size_t activations = size_t{kStepRows} * static_cast<size_t>(widest) * 6 * sizeof(float);
  const size_t logits = size_t{16} * static_cast<size_t>(config.vocab) * sizeof(float);
  constexpr size_t kProgram = size_t{64} << 20;
  return report.packed_bytes + layout.bytes_while_reading(context, kStepRows) + activations + logits +
         kProgram;
}

}  // namespace slip::session
