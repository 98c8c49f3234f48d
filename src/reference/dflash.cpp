#include "reference/dflash.h"

#include <algorithm>

#include "base/check.h"

namespace slip::reference {

using model::LayerConfig;
using model::LayerKind;
using model::LayerWeights;

void Dflash::append(KeyValues& stored, int index, const Row& x) {
  const LayerConfig& layer = config_.text.layers[static_cast<size_t>(index)];
  const LayerWeights& weights = weights_.text.layers[static_cast<size_t>(index)];
  Row keys = tables_.multiply(weights.k, x);
  norm_heads(keys, layer.head_dim, &weights.k_norm, config_.text.norm_epsilon);
  rotate_heads(keys, layer, static_cast<int>(stored.keys.size()));
  stored.keys.push_back(std::move(keys));
  stored.values.push_back(tables_.multiply(weights.v, x));
}

void Dflash::extend(Sequence& context, const std::vector<Row>& taps) {
  context.layers.resize(config_.text.layers.size());
  for (const Row& row : taps) {
    const Row c = norm(tables_.multiply(weights_.fc, row), weights_.context_norm, config_.text.norm_epsilon);
    for (int layer = 0; layer < config_.text.layer_count(); ++layer) {
      append(context.layers[static_cast<size_t>(layer)], layer, c);
    }
    ++context.length;
  }
}

std::vector<Row> Dflash::run_block(const Sequence& context, int anchor, int rows) {
  SLIP_CHECK(rows >= 2 && context.layers.size() == config_.text.layers.size());
  std::vector<Row> streams;
  for (int j = 0; j < rows; ++j) {
    const int token = config_.text.embedding_row(j == 0 ? anchor : config_.mask_id);
    scale(streams.emplace_back(read_row(target_.embed, token)), config_.text.embed_scale);
  }
  for (int layer = 0; layer < config_.text.layer_count(); ++layer) run_layer(streams, layer, context);

  std::vector<Row> logits;
  for (size_t j = 1; j < streams.size(); ++j) {
    const Row y = norm(streams[j], weights_.text.final_norm, config_.text.norm_epsilon);
    softcap(logits.emplace_back(tables_.multiply(target_.output_head(), y)), config_.text.logit_softcap);
  }
  return logits;
}

void Dflash::run_layer(std::vector<Row>& streams, int index, const Sequence& context) {
  const LayerConfig& layer = config_.text.layers[static_cast<size_t>(index)];
  const LayerWeights& weights = weights_.text.layers[static_cast<size_t>(index)];
  const float epsilon = config_.text.norm_epsilon;

  KeyValues visible = context.layers[static_cast<size_t>(index)];
  for (const Row& stream : streams) append(visible, index, norm(stream, weights.input_norm, epsilon));

  const auto end = static_cast<int>(visible.keys.size());
  for (size_t j = 0; j < streams.size(); ++j) {
    Row& stream = streams[j];
    const int position = context.length + static_cast<int>(j);
    Row query = tables_.multiply(weights.q, norm(stream, weights.input_norm, epsilon));
    norm_heads(query, layer.head_dim, &weights.q_norm, epsilon);  // its weight has 1/sqrt(hd) in it
    rotate_heads(query, layer, position);
    const bool sliding = layer.kind == LayerKind::kSliding;
    const Row attended =
        attend(query, layer, visible, sliding ? std::max(0, position - config_.text.window + 1) : 0,
               sliding ? position + 1 : end);
    add(stream, tables_.multiply(weights.o, attended));

    const Row x = norm(stream, weights.pre_mlp_norm, epsilon);
    Row activated = tables_.multiply(weights.gate, x);
    const Row up = tables_.multiply(weights.up, x);
    for (size_t i = 0; i < up.size(); ++i) activated[i] = silu(activated[i]) * up[i];
    add(stream, tables_.multiply(weights.down, activated));
  }
}

}  // namespace slip::reference
