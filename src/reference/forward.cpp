#include "reference/forward.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/float16.h"

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
};

namespace {

using Row = std::vector<float>;

float gelu_tanh(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);  // sqrt(2 / pi)
  return 0.5f * x * (1.0f + std::tanh(inner));
}

/// x / rms(x), without a weight.
void normalise(float* x, int count, float epsilon) {
  double squares = 0;
  for (int i = 0; i < count; ++i) squares += static_cast<double>(x[i]) * x[i];
  const float scale = static_cast<float>(1.0 / std::sqrt(squares / count + epsilon));
  for (int i = 0; i < count; ++i) x[i] *= scale;
}

/// Rotates the pairs (i, i + hd/2) of one head by position * frequency(i).
void rotate(float* head, const LayerConfig& layer, int position) {
  const int half = layer.head_dim / 2;
  for (int i = 0; i < layer.rotated_pairs; ++i) {
    const double angle = position * model::Config::rope_frequency(layer, i);
    const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
    const float a = head[i], b = head[i + half];
    head[i] = a * c - b * s;
    head[i + half] = b * c + a * s;
  }
}

void norm_heads(Row& row, int head_dim, const Row* weight, float epsilon) {
  for (size_t head = 0; head < row.size(); head += static_cast<size_t>(head_dim)) {
    normalise(&row[head], head_dim, epsilon);
    if (weight == nullptr) continue;
    for (int i = 0; i < head_dim; ++i)
      row[head + static_cast<size_t>(i)] *= (*weight)[static_cast<size_t>(i)];
  }
}

void round_row(Row& row) {
  for (float& x : row) x = round_to_bf16(x);
}

void add(Row& to, const Row& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

}  // namespace

Forward::Forward(const model::Program& program)
    : program_(program), config_(program.config), weights_(*program.weights) {}

Result Forward::step(Sequence& sequence, int token) {
  return run(sequence, token, nullptr);
}

Result Forward::step_embedding(Sequence& sequence, const std::vector<float>& embedding) {
  return run(sequence, config_.pad_id, &embedding);
}

Result Forward::run(Sequence& sequence, int token, const Row* embedding) {
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
    if (!observe) continue;
    switch (phase.output) {
      case Field::kNone: break;
      case Field::kStream: observe(phase, state.stream); break;
      case Field::kPerLayer: observe(phase, state.per_layer); break;
      case Field::kQuery: observe(phase, state.query); break;
      case Field::kAttended: observe(phase, state.attended); break;
      case Field::kActivated: observe(phase, state.activated); break;
      case Field::kLogits: observe(phase, state.logits); break;
    }
  }
  ++sequence.length;
  return {std::move(state.hidden), std::move(state.logits)};
}

void Forward::embed(State& state) {
  if (state.embedding != nullptr) {
    state.stream = *state.embedding;  // soft embeddings are not scaled
    return;
  }
  const Table& embeddings = table(weights_.embed);
  const auto* row = &embeddings[static_cast<size_t>(state.token) * static_cast<size_t>(config_.hidden)];
  state.stream.assign(row, row + config_.hidden);
  for (float& x : state.stream) x *= config_.embed_scale;
}

void Forward::per_layer_inputs(State& state) {
  const int p = config_.per_layer_dim;
  state.per_layer = multiply(weights_.per_layer_projection, state.stream);
  const float project_scale = 1.0f / std::sqrt(static_cast<float>(config_.hidden));
  for (float& x : state.per_layer) x *= project_scale;
  norm_heads(state.per_layer, p, &weights_.per_layer_norm, config_.norm_epsilon);
  Row row(state.per_layer.size());
  tensor::RowReader(weights_.per_layer_embed).floats(state.token, row.data());
  const float table_scale = std::sqrt(static_cast<float>(p));
  for (size_t i = 0; i < row.size(); ++i) {
    state.per_layer[i] = (state.per_layer[i] + row[i] * table_scale) * 0.7071067811865476f;
  }
}

void Forward::qkv(State& state, int index) {
  const LayerConfig& layer = config_.layers[static_cast<size_t>(index)];
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(index)];
  const Row x = norm(state.stream, weights.input_norm);

  state.query = multiply(weights.q, x);
  norm_heads(state.query, layer.head_dim, &weights.q_norm, config_.norm_epsilon);
  for (int h = 0; h < layer.heads; ++h)
    rotate(&state.query[static_cast<size_t>(h * layer.head_dim)], layer, state.position);

  if (!config_.owns_kv(index)) return;
  Row keys = multiply(weights.k, x);
  Row values =
      layer.k_is_v ? keys : multiply(weights.v, x);  // the raw k_proj output, before norm and rotation
  norm_heads(values, layer.head_dim, nullptr, config_.norm_epsilon);
  if (bf16_cache) round_row(values);
  if (layer.k_is_v) {
    keys = values;
    for (size_t i = 0; i < keys.size(); ++i)
      keys[i] *= weights.k_norm[i % static_cast<size_t>(layer.head_dim)];
  } else {
    norm_heads(keys, layer.head_dim, &weights.k_norm, config_.norm_epsilon);
  }
  for (int h = 0; h < layer.kv_heads; ++h) {
    rotate(&keys[static_cast<size_t>(h * layer.head_dim)], layer, state.position);
  }
  if (bf16_cache && !layer.k_is_v) round_row(keys);

  auto& cache = state.sequence.layers[static_cast<size_t>(index)];
  cache.keys.resize(static_cast<size_t>(state.position));
  cache.values.resize(static_cast<size_t>(state.position));
  cache.keys.push_back(std::move(keys));
  cache.values.push_back(std::move(values));
}

void Forward::attend(State& state, int index) {
  const LayerConfig& layer = config_.layers[static_cast<size_t>(index)];
  const auto& cache = state.sequence.layers[static_cast<size_t>(layer.kv_source)];
  const int hd = layer.head_dim;
  const int first = layer.kind == LayerKind::kSliding ? std::max(0, state.position - config_.window + 1) : 0;

  state.attended.assign(state.query.size(), 0.0f);
  for (int h = 0; h < layer.heads; ++h) {
    const float* query = &state.query[static_cast<size_t>(h * hd)];
    const auto kv = static_cast<size_t>(h / (layer.heads / layer.kv_heads) * hd);
    std::vector<float> scores;
    for (int t = first; t <= state.position; ++t) {
      const float* key = &cache.keys[static_cast<size_t>(t)][kv];
      scores.push_back(std::inner_product(query, query + hd, key, 0.0f));  // no 1/sqrt(hd), no cap
    }
    const float largest = *std::max_element(scores.begin(), scores.end());
    float total = 0;
    for (float& score : scores) total += score = std::exp(score - largest);
    float* out = &state.attended[static_cast<size_t>(h * hd)];
    for (int t = first; t <= state.position; ++t) {
      const float share = scores[static_cast<size_t>(t - first)] / total;
      const float* value = &cache.values[static_cast<size_t>(t)][kv];
      for (int i = 0; i < hd; ++i) out[i] += share * value[i];
    }
  }
}

void Forward::attention_out(State& state, int index) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(index)];
  add(state.stream, norm(multiply(weights.o, state.attended), weights.post_attention_norm));
}

void Forward::gate_up(State& state, int index) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(index)];
  const Row x = norm(state.stream, weights.pre_mlp_norm);
  state.activated = multiply(weights.gate, x);
  const Row up = multiply(weights.up, x);
  for (size_t i = 0; i < up.size(); ++i) state.activated[i] = gelu_tanh(state.activated[i]) * up[i];
}

void Forward::down(State& state, int index) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(index)];
  Row y = multiply(weights.down, state.activated);
  if (config_.experts > 0) {
    y = norm(y, weights.moe.post_norm_dense);
    add(y, norm(experts(state, index), weights.moe.post_norm));
  }
  add(state.stream, norm(y, weights.post_mlp_norm));
  if (config_.per_layer_dim == 0) end_of_layer(state, index);
}

Row Forward::experts(const State& state, int index) {
  const model::MoeWeights& moe = weights_.layers[static_cast<size_t>(index)].moe;
  const auto chosen_count = static_cast<size_t>(config_.experts_per_token);

  // The router sees the un-normalised stream through a norm of its own.
  Row routed = state.stream;
  normalise(routed.data(), config_.hidden, config_.norm_epsilon);
  const float root = 1.0f / std::sqrt(static_cast<float>(config_.hidden));
  for (size_t i = 0; i < routed.size(); ++i) routed[i] *= moe.router_scale[i] * root;
  const Row scores = multiply(moe.router, routed);

  // The best k, ties to the lower index; shares by softmax over the chosen, then the learned scale of each
  // expert.
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(chosen_count);
  float total = 0;
  Row shares;
  for (const int e : order)
    total +=
        shares.emplace_back(std::exp(scores[static_cast<size_t>(e)] - scores[static_cast<size_t>(order[0])]));

  const Row x = norm(state.stream, moe.pre_norm);
  const int64_t inner = config_.expert_intermediate;
  Row sum(static_cast<size_t>(config_.hidden), 0.0f);
  for (size_t slot = 0; slot < chosen_count; ++slot) {
    const int e = order[slot];
    Row act = multiply(moe.gate, x, e * inner, inner);
    const Row up = multiply(moe.up, x, e * inner, inner);
    for (size_t i = 0; i < act.size(); ++i) act[i] = gelu_tanh(act[i]) * up[i];
    const Row y = multiply(moe.down, act, int64_t{e} * config_.hidden, config_.hidden);
    const float share = shares[slot] / total * moe.per_expert_scale[static_cast<size_t>(e)];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += share * y[i];
  }
  return sum;
}

void Forward::per_layer_mix(State& state, int index) {
  const model::PerLayerWeights& weights = weights_.layers[static_cast<size_t>(index)].per_layer;
  Row gated = multiply(weights.gate, state.stream);
  const float* inputs = &state.per_layer[static_cast<size_t>(index * config_.per_layer_dim)];
  for (size_t i = 0; i < gated.size(); ++i) gated[i] = gelu_tanh(gated[i]) * inputs[i];
  add(state.stream, norm(multiply(weights.projection, gated), weights.post_norm));
  end_of_layer(state, index);
}

void Forward::end_of_layer(State& state, int index) {
  for (float& x : state.stream) x *= weights_.layers[static_cast<size_t>(index)].scalar;
}

void Forward::head(State& state) {
  state.hidden = norm(state.stream, weights_.final_norm);
  state.logits = multiply(weights_.output_head(), state.hidden);
  const float cap = config_.logit_softcap;
  if (cap <= 0) return;
  for (float& logit : state.logits) logit = cap * std::tanh(logit / cap);
}

const Forward::Table& Forward::table(const model::Matrix& matrix) {
  SLIP_CHECK(matrix.present());
  Table& table = tables_[&matrix];
  if (table.empty()) {
    table.resize(static_cast<size_t>(matrix.rows * matrix.cols));
    tensor::RowReader reader(matrix);
    for (int64_t r = 0; r < matrix.rows; ++r) reader.floats(r, &table[static_cast<size_t>(r * matrix.cols)]);
  }
  return table;
}

Row Forward::multiply(const model::Matrix& matrix, const Row& x, int64_t first_row, int64_t rows) {
  const Table& weights = table(matrix);
  SLIP_CHECK(static_cast<int64_t>(x.size()) == matrix.cols);
  Row y(static_cast<size_t>(rows < 0 ? matrix.rows : rows));
  for (size_t r = 0; r < y.size(); ++r) {
    const float* row = &weights[(static_cast<size_t>(first_row) + r) * x.size()];
    y[r] = std::inner_product(x.begin(), x.end(), row, 0.0f);
  }
  return y;
}

Row Forward::norm(const Row& x, const Row& weight) const {
  Row y = x;
  normalise(y.data(), static_cast<int>(y.size()), config_.norm_epsilon);
  for (size_t i = 0; i < y.size(); ++i) y[i] *= weight[i];
  return y;
}

}  // namespace slip::reference
