#include "model/vision.h"

#include <cmath>

namespace slip::model {

namespace {

/// A phase whose rows are soft rows, not patches.
bool by_soft_row(VisionPhaseKind kind) {
  return kind == VisionPhaseKind::kPool || kind == VisionPhaseKind::kProject;
}

void add_layer(VisionProgram& program, int layer) {
  const VisionConfig& config = program.config;
  const double d = config.hidden, a = config.q_size(), inner = config.intermediate;
  auto& phases = program.phases;
  phases.push_back({VisionPhaseKind::kQkv, layer, VisionField::kQuery, 6 * d * a});
  phases.push_back({VisionPhaseKind::kAttend, layer, VisionField::kAttended});
  phases.push_back({VisionPhaseKind::kAttentionOut, layer, VisionField::kStream, 2 * d * a});
  phases.push_back({VisionPhaseKind::kGateUp, layer, VisionField::kActivated, 4 * d * inner});
  phases.push_back({VisionPhaseKind::kDown, layer, VisionField::kStream, 2 * d * inner});
}

}  // namespace

double VisionConfig::rope_frequency(int i) const {
  return std::pow(rope_theta, -2.0 * i / (head_dim / 2));
}

VisionProgram build_vision_program(const VisionConfig& config, const VisionWeights& weights) {
  VisionProgram program{config, &weights, {}};
  const double d = config.hidden;
  const bool tower = config.kind == VisionKind::kTower;
  program.phases.push_back({VisionPhaseKind::kPatches, -1,
                            tower ? VisionField::kStream : VisionField::kPooled,
                            2 * d * config.patch_values()});
  for (int layer = 0; layer < config.layers; ++layer) add_layer(program, layer);
  if (tower) program.phases.push_back({VisionPhaseKind::kPool, -1, VisionField::kPooled});
  program.phases.push_back({VisionPhaseKind::kProject, -1, VisionField::kSoft, 2 * d * config.text_hidden});
  return program;
}

double VisionProgram::product_flops(int patches) const {
  double total = 0;
  for (const VisionPhase& phase : phases) {
    const int rows = by_soft_row(phase.kind) ? patches / config.patches_per_soft_row() : patches;
    total += phase.row_flops * rows;
  }
  return total;
}

double VisionProgram::attention_flops(int patches) const {
  return 4.0 * patches * patches * config.q_size() * config.layers;
}

const char* name_of(VisionPhaseKind kind) {
  switch (kind) {
    case VisionPhaseKind::kPatches: return "patches";
    case VisionPhaseKind::kQkv: return "qkv";
    case VisionPhaseKind::kAttend: return "attend";
    case VisionPhaseKind::kAttentionOut: return "attention out";
    case VisionPhaseKind::kGateUp: return "gate up";
    case VisionPhaseKind::kDown: return "down";
    case VisionPhaseKind::kPool: return "pool";
    case VisionPhaseKind::kProject: return "project";
  }
  return "";
}

}  // namespace slip::model
