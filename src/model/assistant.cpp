#include "model/assistant.h"

namespace slip::model {

Program assistant_program(const AssistantConfig& config, const AssistantWeights& weights) {
  Program program{config.text, &weights.text, {}, {}, config.text.layer_count()};
  program.phases.push_back(
      {PhaseKind::kDraftInput, -1, Field::kNone, Field::kStream, streamed_bytes(weights.pre_projection)});
  for (int i = 0; i < config.text.layer_count(); ++i) add_layer(program, i);
  size_t head = streamed_bytes(weights.text.embed);
  if (config.centroids > 0) {
    head = head / static_cast<size_t>(config.centroids) * static_cast<size_t>(config.kept_centroids) +
           streamed_bytes(weights.centroids);
  }
  program.phases.push_back({PhaseKind::kDraftHead, -1, Field::kStream, Field::kLogits,
                            head + streamed_bytes(weights.post_projection)});
  return program;
}

}  // namespace slip::model
