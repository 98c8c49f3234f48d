#include "reference/target_run.h"

namespace slip::reference {

TargetRun::TargetRun(const model::Config& config, const model::Weights& weights, const Disturb& disturb)
    : program_(model::build_program(config, weights)), forward_(program_) {
  if (disturb)
    forward_.disturb = [disturb](const model::Phase&, std::vector<float>& field) { disturb(field); };
  forward_.observe = [this](const model::Phase& phase, const std::vector<float>& values) {
    // The last of these is the layer's output: the mix where there is one, else the MLP.
    if (phase.kind == model::PhaseKind::kDown || phase.kind == model::PhaseKind::kPerLayerMix) {
      outputs_[phase.layer] = values;
    }
  };
}

void TargetRun::feed(std::span<const int> tokens) {
  for (const int token : tokens) {
    hidden = forward_.step(sequence, token).hidden;
    layer_outputs.push_back(outputs_);
  }
}

std::vector<Row> TargetRun::taps(const std::vector<int>& layers, size_t first) const {
  std::vector<Row> rows;
  for (size_t at = first; at < layer_outputs.size(); ++at) {
    Row& row = rows.emplace_back();
    for (const int layer : layers) {
      const Row& output = layer_outputs[at].at(layer);
      row.insert(row.end(), output.begin(), output.end());
    }
  }
  return rows;
}

}  // namespace slip::reference
