#include "reference/assistant.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace slip::reference {

using model::LayerConfig;
using model::LayerKind;
using model::LayerWeights;

Result Assistant::step(const Sequence& target, const AssistantStep& step) {
  SLIP_CHECK(static_cast<int>(step.hidden.size()) == config_.backbone_hidden && step.keys > 0 &&
             step.keys <= target.length);
  // The embedding first, then the hidden state.
  Row input = read_row(target_weights_.embed, target_.embedding_row(step.token));
  scale(input, target_.embed_scale);
  input.insert(input.end(), step.hidden.begin(), step.hidden.end());

  Row stream = tables_.multiply(weights_.pre_projection, input);
  for (int layer = 0; layer < config_.text.layer_count(); ++layer) run_layer(stream, layer, target, step);
  const Row y = norm(stream, weights_.text.final_norm, config_.text.norm_epsilon);
  return {.hidden = tables_.multiply(weights_.post_projection, y), .logits = head(y)};
}

void Assistant::run_layer(Row& stream, int index, const Sequence& target, const AssistantStep& step) {
  const LayerConfig& layer = config_.text.layers[static_cast<size_t>(index)];
  const LayerWeights& weights = weights_.text.layers[static_cast<size_t>(index)];
  const float epsilon = config_.text.norm_epsilon;

  Row query = tables_.multiply(weights.q, norm(stream, weights.input_norm, epsilon));
  norm_heads(query, layer.head_dim, &weights.q_norm, epsilon);
  rotate_heads(query, layer, step.position);
  const bool sliding = layer.kind == LayerKind::kSliding;
  const int first = sliding ? std::max(0, step.keys - config_.text.window - step.extra_keys) : 0;
  const KeyValues& stored = target.layers[static_cast<size_t>(layer.kv_source)];
  const Row attended = attend(query, layer, stored, first, step.keys);
  add(stream, norm(tables_.multiply(weights.o, attended), weights.post_attention_norm, epsilon));

  const Row x = norm(stream, weights.pre_mlp_norm, epsilon);
  Row activated = tables_.multiply(weights.gate, x);
  const Row up = tables_.multiply(weights.up, x);
  for (size_t i = 0; i < up.size(); ++i) activated[i] = gelu_tanh(activated[i]) * up[i];
  add(stream, norm(tables_.multiply(weights.down, activated), weights.post_mlp_norm, epsilon));
  scale(stream, weights.scalar);
}

Row Assistant::head(const Row& y) {
  if (config_.centroids == 0) return tables_.multiply(weights_.text.embed, y);
  Row logits(static_cast<size_t>(config_.text.vocab), -std::numeric_limits<float>::infinity());
  const int size = config_.text.vocab / config_.centroids;
  for (const int cluster : largest(tables_.multiply(weights_.centroids, y), config_.kept_centroids)) {
    for (int i = cluster * size; i < (cluster + 1) * size; ++i) {
      const int token = weights_.ordering[static_cast<size_t>(i)];
      logits[static_cast<size_t>(token)] = tables_.multiply(weights_.text.embed, y, token, 1).front();
    }
  }
  return logits;
}

}  // namespace slip::reference
