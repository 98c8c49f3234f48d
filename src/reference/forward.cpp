#include "reference/forward.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace slip::reference {

using model::Field;
using model::LayerConfig;
using model::LayerKind;
using model::LayerWeights;
using model::Phase;
using model::PhaseKind;

struct Forward::State {
  Sequence& sequence;
  int token;             // pad where an embedding stands in
  const Row* embedding;  // null for a token
  int position;
  Row stream, per_layer, query, attended, activated;
  Row hidden, logits;

  /// Null for kNone.
  Row* field(Field which) {
    switch (which) {
      case Field::kNone: break;
      case Field::kStream: return &stream;
      case Field::kPerLayer: return &per_layer;
      case Field::kQuery: return &query;
      case Field::kAttended: return &attended;
      case Field::kActivated: return &activated;
      case Field::kLogits: return &logits;
    }
    return nullptr;
  }
};

Forward::Forward(const model::Program& program)
    : program_(program), config_(program.config), weights_(*program.weights) {}

Result Forward::step(Sequence& sequence, int token) {
  return run(sequence, token, nullptr);
}

Result Forward::step_embedding(Sequence& sequence, const std::vector<float>& embedding) {
  return run(sequence, config_.pad_id, &embedding);
}

Result Forward::run(Sequence& sequence, int token, const Row* embedding) {
  routing_margin = INFINITY;
  tables_.rounding = rounding;
  sequence.layers.resize(config_.layers.size());
  State state{.sequence = sequence,
              .token = token,
              .embedding = embedding,
              .position = sequence.length,
              .stream = {},
              .per_layer = {},
              .query = {},
              .attended = {},
              .activated = {},
              .hidden = {},
              .logits = {}};
  for (const Phase& phase : program_.phases) {
    switch (phase.kind) {
      case PhaseKind::kEmbed: embed(state); break;
      case PhaseKind::kPerLayerInputs: per_layer_inputs(state); break;
      case PhaseKind::kQkv: qkv(state, phase.layer); break;
      case PhaseKind::kKeepOutputs: break;  // one row, and it wants its output
      case PhaseKind::kAttend: attend(state, phase.layer); break;
      case PhaseKind::kAttentionOut: attention_out(state, phase.layer); break;
      case PhaseKind::kGateUp: gate_up(state, phase.layer); break;
      case PhaseKind::kDown: down(state, phase.layer); break;
      case PhaseKind::kPerLayerMix: per_layer_mix(state, phase.layer); break;
      case PhaseKind::kHead: head(state); break;
      case PhaseKind::kDraftInput:
      case PhaseKind::kDraftHead:
      case PhaseKind::kContext:
      case PhaseKind::kContextKv: SLIP_CHECK(false);  // draft networks have references of their own
    }
    Row* const field = state.field(phase.output);
    if (field != nullptr && disturb) disturb(phase, *field);
    if (field != nullptr && observe) observe(phase, *field);
  }
  ++sequence.length;
  return {std::move(state.hidden), std::move(state.logits)};
}

void Forward::embed(State& state) {
  if (state.embedding != nullptr) {
    state.stream = *state.embedding;  // soft embeddings are not scaled
    return;
  }
  state.stream = read_row(weights_.embed, config_.embedding_row(state.token));
  scale(state.stream, config_.embed_scale);
}

void Forward::per_layer_inputs(State& state) {
  const int p = config_.per_layer_dim;
  state.per_layer = tables_.multiply(weights_.per_layer_projection, state.stream);
  scale(state.per_layer, 1.0f / std::sqrt(static_cast<float>(config_.hidden)));
  norm_heads(state.per_layer, p, &weights_.per_layer_norm, config_.norm_epsilon);
  const Row row = read_row(weights_.per_layer_embed, config_.embedding_row(state.token));
  const float table_scale = std::sqrt(static_cast<float>(p));
  for (size_t i = 0; i < row.size(); ++i) {
    state.per_layer[i] = (state.per_layer[i] + row[i] * table_scale) * 0.7071067811865476f;
  }
}

void Forward::qkv(State& state, int index) {
  const LayerConfig& layer = config_.layers[static_cast<size_t>(index)];
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(index)];
  const Row x = norm(state.stream, weights.input_norm);

  state.query = tables_.multiply(weights.q, x);
  norm_heads(state.query, layer.head_dim, &weights.q_norm, config_.norm_epsilon);
  rotate_heads(state.query, layer, state.position);

  if (!config_.owns_kv(index)) return;
  Row keys = tables_.multiply(weights.k, x);
  // Where K = V it is the raw k_proj output, before norm and rotation.
  Row values = layer.k_is_v ? keys : tables_.multiply(weights.v, x);
  norm_heads(values, layer.head_dim, nullptr, config_.norm_epsilon);
  if (layer.k_is_v) {
    round_for_cache(index, keys, values);
    keys = values;
    for (size_t i = 0; i < keys.size(); ++i)
      keys[i] *= weights.k_norm[i % static_cast<size_t>(layer.head_dim)];
    rotate_heads(keys, layer, state.position);
  } else {
    norm_heads(keys, layer.head_dim, &weights.k_norm, config_.norm_epsilon);
    rotate_heads(keys, layer, state.position);
    round_for_cache(index, keys, values);
  }

  auto& cache = state.sequence.layers[static_cast<size_t>(index)];
  cache.keys.resize(static_cast<size_t>(state.position));
  cache.values.resize(static_cast<size_t>(state.position));
  cache.keys.push_back(std::move(keys));
  cache.values.push_back(std::move(values));
}

// What of K and V goes into the cache: both, or where K = V the values alone.
void Forward::round_for_cache(int index, Row& keys, Row& values) const {
  if (store) return store(index, keys, values);
  if (!bf16_cache) return;
  round_to_bf16(values);
  if (!config_.layers[static_cast<size_t>(index)].k_is_v) round_to_bf16(keys);
}

void Forward::attend(State& state, int index) {
  const LayerConfig& layer = config_.layers[static_cast<size_t>(index)];
  const KeyValues& stored = state.sequence.layers[static_cast<size_t>(layer.kv_source)];
  const int first = layer.kind == LayerKind::kSliding ? std::max(0, state.position - config_.window + 1) : 0;
  state.attended = reference::attend(state.query, layer, stored, first, state.position + 1);
}

void Forward::attention_out(State& state, int index) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(index)];
  add(state.stream, norm(tables_.multiply(weights.o, state.attended), weights.post_attention_norm));
}

void Forward::gate_up(State& state, int index) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(index)];
  const Row x = norm(state.stream, weights.pre_mlp_norm);
  state.activated = tables_.multiply(weights.gate, x);
  const Row up = tables_.multiply(weights.up, x);
  for (size_t i = 0; i < up.size(); ++i) state.activated[i] = gelu_tanh(state.activated[i]) * up[i];
}

void Forward::down(State& state, int index) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(index)];
  Row y = tables_.multiply(weights.down, state.activated);
  if (config_.experts > 0) {
    y = norm(y, weights.moe.post_norm_dense);
    add(y, norm(experts(state, index), weights.moe.post_norm));
  }
  add(state.stream, norm(y, weights.post_mlp_norm));
  if (config_.per_layer_dim == 0) end_of_layer(state, index);
}

Row Forward::experts(const State& state, int index) {
  const model::MoeWeights& moe = weights_.layers[static_cast<size_t>(index)].moe;

  // The router sees the un-normalised stream through a norm of its own.
  Row routed = state.stream;
  normalise(routed.data(), config_.hidden, config_.norm_epsilon);
  const float root = 1.0f / std::sqrt(static_cast<float>(config_.hidden));
  for (size_t i = 0; i < routed.size(); ++i) routed[i] *= moe.router_scale[i] * root;
  const Row scores = tables_.multiply(moe.router, routed);

  // The best k, ties to the lower index; shares by softmax over the chosen, then the learned scale of each
  // expert.
  const std::vector<int> order = largest(scores, config_.experts_per_token);
  const auto score = [&](int e) { return scores[static_cast<size_t>(e)]; };
  for (int e = 0; e < config_.experts; ++e) {
    if (std::find(order.begin(), order.end(), e) == order.end())
      routing_margin = std::min(routing_margin, score(order.back()) - score(e));
  }
  float total = 0;
  Row shares;
  for (const int e : order) total += shares.emplace_back(std::exp(score(e) - score(order[0])));

  const Row x = norm(state.stream, moe.pre_norm);
  const int64_t inner = config_.expert_intermediate;
  Row sum(static_cast<size_t>(config_.hidden), 0.0f);
  for (size_t slot = 0; slot < order.size(); ++slot) {
    const int e = order[slot];
    Row act = tables_.multiply(moe.gate, x, e * inner, inner);
    const Row up = tables_.multiply(moe.up, x, e * inner, inner);
    for (size_t i = 0; i < act.size(); ++i) act[i] = gelu_tanh(act[i]) * up[i];
    const Row y = tables_.multiply(moe.down, act, int64_t{e} * config_.hidden, config_.hidden);
    const float share = shares[slot] / total * moe.per_expert_scale[static_cast<size_t>(e)];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += share * y[i];
  }
  return sum;
}

void Forward::per_layer_mix(State& state, int index) {
  const model::PerLayerWeights& weights = weights_.layers[static_cast<size_t>(index)].per_layer;
  Row gated = tables_.multiply(weights.gate, state.stream);
  const float* inputs = &state.per_layer[static_cast<size_t>(index * config_.per_layer_dim)];
  for (size_t i = 0; i < gated.size(); ++i) gated[i] = gelu_tanh(gated[i]) * inputs[i];
  add(state.stream, norm(tables_.multiply(weights.projection, gated), weights.post_norm));
  end_of_layer(state, index);
}

void Forward::end_of_layer(State& state, int index) {
  scale(state.stream, weights_.layers[static_cast<size_t>(index)].scalar);
}

void Forward::head(State& state) {
  state.hidden = norm(state.stream, weights_.final_norm);
  state.logits = logits_of(state.hidden);
}

Row Forward::logits_of(const Row& hidden) {
  tables_.rounding = head_rounding;
  Row logits = tables_.multiply(weights_.output_head(), hidden);
  tables_.rounding = rounding;
  softcap(logits, config_.logit_softcap);
  return logits;
}

Row Forward::norm(const Row& x, const Row& weight) const {
  return reference::norm(x, weight, config_.norm_epsilon);
}

}  // namespace slip::reference
