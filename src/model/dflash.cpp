#include "model/dflash.h"

namespace slip::model {

Program dflash_context_program(const DflashConfig& config, const DflashWeights& weights) {
  Program program{config.text, &weights.text, {}, {}, config.text.layer_count()};
  program.phases.push_back(
      {PhaseKind::kContext, -1, Field::kNone, Field::kStream, streamed_bytes(weights.fc)});
  for (int i = 0; i < config.text.layer_count(); ++i) {
    const LayerWeights& layer = weights.text.layers[static_cast<size_t>(i)];
    program.phases.push_back({PhaseKind::kContextKv, i, Field::kStream, Field::kNone,
                              streamed_bytes(layer.k) + streamed_bytes(layer.v)});
  }
  return program;
}

Program dflash_block_program(const DflashConfig& config, const DflashWeights& weights, const Matrix& head) {
  Program program = build_program(config.text, weights.text);
  program.phases.back().bytes = streamed_bytes(head);
  return program;
}

}  // namespace slip::model
