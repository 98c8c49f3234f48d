#include "model/program.h"

#include <algorithm>

namespace slip::model {

size_t streamed_bytes(const Matrix& matrix) {
  if (!matrix.present()) return 0;
  const auto values = static_cast<size_t>(matrix.rows) * static_cast<size_t>(matrix.cols);
  if (matrix.encoding == tensor::Encoding::kFloat) return values * static_cast<size_t>(matrix.bits) / 8;
  const size_t code_bits = matrix.bits <= 4 ? 4 : 8;
  const size_t scale_bytes = matrix.scales->dtype() == tensor::DType::kBf16 ? 2 : 4;
  return values * code_bits / 8 + values / static_cast<size_t>(matrix.group) * 2 * scale_bytes;
}

size_t Program::streamed_bytes() const {
  size_t total = 0;
  for (const auto& phase : phases) total += phase.bytes;
  return total;
}

void add_layer(Program& program, int index) {
  const Config& config = program.config;
  const LayerWeights& layer = program.weights->layers[static_cast<size_t>(index)];
  auto& phases = program.phases;

  const size_t qkv = streamed_bytes(layer.q) + streamed_bytes(layer.k) + streamed_bytes(layer.v);
  phases.push_back({PhaseKind::kQkv, index, Field::kStream, Field::kQuery, qkv});
  if (index == program.leave_layer)
    phases.push_back({PhaseKind::kKeepOutputs, index, Field::kStream, Field::kStream, 0});
  phases.push_back({PhaseKind::kAttend, index, Field::kQuery, Field::kAttended, 0});
  phases.push_back(
      {PhaseKind::kAttentionOut, index, Field::kAttended, Field::kStream, streamed_bytes(layer.o)});

  size_t gate_up = streamed_bytes(layer.gate) + streamed_bytes(layer.up);
  size_t down = streamed_bytes(layer.down);
  if (config.experts > 0) {
    const auto experts = static_cast<size_t>(config.experts);
    const auto chosen = static_cast<size_t>(config.experts_per_token);
    gate_up += streamed_bytes(layer.moe.router);
    down += (streamed_bytes(layer.moe.gate) + streamed_bytes(layer.moe.up) + streamed_bytes(layer.moe.down)) /
            experts * chosen;
  }
  phases.push_back({PhaseKind::kGateUp, index, Field::kStream, Field::kActivated, gate_up});
  phases.push_back({PhaseKind::kDown, index, Field::kActivated, Field::kStream, down});
  if (config.per_layer_dim > 0) {
    const size_t mix = streamed_bytes(layer.per_layer.gate) + streamed_bytes(layer.per_layer.projection);
    phases.push_back({PhaseKind::kPerLayerMix, index, Field::kPerLayer, Field::kStream, mix});
  }
}

Program build_program(const Config& config, const Weights& weights, std::vector<int> taps) {
  Program program{config, &weights, {}, std::move(taps), config.last_kv_layer()};
  for (const int tap : program.taps) program.leave_layer = std::max(program.leave_layer, tap + 1);
  program.phases.push_back({PhaseKind::kEmbed, -1, Field::kNone, Field::kStream, 0});
  if (config.per_layer_dim > 0) {
    const size_t bytes = streamed_bytes(weights.per_layer_projection);
    program.phases.push_back({PhaseKind::kPerLayerInputs, -1, Field::kStream, Field::kPerLayer, bytes});
  }
  for (int i = 0; i < config.layer_count(); ++i) add_layer(program, i);
  if (program.leave_layer == config.layer_count())
    program.phases.push_back({PhaseKind::kKeepOutputs, -1, Field::kStream, Field::kStream, 0});
  program.phases.push_back(
      {PhaseKind::kHead, -1, Field::kStream, Field::kLogits, streamed_bytes(weights.output_head())});
  return program;
}

const char* name_of(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::kEmbed: return "embed";
    case PhaseKind::kPerLayerInputs: return "per-layer inputs";
    case PhaseKind::kQkv: return "qkv";
    case PhaseKind::kKeepOutputs: return "keep outputs";
    case PhaseKind::kAttend: return "attend";
    case PhaseKind::kAttentionOut: return "attention out";
    case PhaseKind::kGateUp: return "gate, up";
    case PhaseKind::kDown: return "down";
    case PhaseKind::kPerLayerMix: return "per-layer mix";
    case PhaseKind::kHead: return "head";
    case PhaseKind::kDraftInput: return "draft input";
    case PhaseKind::kDraftHead: return "draft head";
    case PhaseKind::kContext: return "context";
    case PhaseKind::kContextKv: return "context k, v";
  }
  return "?";
}

size_t parameters(const Config& config) {
  const auto h = static_cast<size_t>(config.hidden);
  const auto p = static_cast<size_t>(config.per_layer_dim);
  const size_t layers = config.layers.size();
  size_t total = static_cast<size_t>(config.vocab) * h + h;
  if (p > 0) total += static_cast<size_t>(config.per_layer_vocab) * layers * p + layers * p * h + p;
  for (size_t i = 0; i < layers; ++i) {
    const LayerConfig& layer = config.layers[i];
    const auto hd = static_cast<size_t>(layer.head_dim);
    const auto q = static_cast<size_t>(layer.q_size());
    const auto kv = static_cast<size_t>(layer.kv_size());
    total += 4 * h + 1 + 2 * q * h + hd + 3 * static_cast<size_t>(layer.intermediate) * h;
    if (config.owns_kv(static_cast<int>(i))) total += kv * h * (layer.k_is_v ? 1 : 2) + hd;
    if (p > 0) total += 2 * p * h + h;
    if (config.experts > 0) {
      const auto e = static_cast<size_t>(config.experts);
      total += e * h + h + e + 3 * e * static_cast<size_t>(config.expert_intermediate) * h + 3 * h;
    }
  }
  return total;
}

}  // namespace slip::model
