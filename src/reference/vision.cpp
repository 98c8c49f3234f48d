#include "reference/vision.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace slip::reference {

using model::VisionField;
using model::VisionKind;
using model::VisionLayerWeights;
using model::VisionPhase;
using model::VisionPhaseKind;

struct Vision::State {
  const model::ImagePatches& image;
  std::vector<Row> stream, query, attended, activated, pooled, soft;
  KeyValues stored;  // of the layer at work

  int column(size_t patch) const { return static_cast<int>(patch) % image.columns; }
  int row(size_t patch) const { return static_cast<int>(patch) / image.columns; }
  Row patch(size_t index, int values) const {
    const auto at = image.values.begin() + static_cast<std::ptrdiff_t>(index) * values;
    return {at, at + values};
  }
  const std::vector<Row>& field(VisionField name) const {
    switch (name) {
      case VisionField::kStream: return stream;
      case VisionField::kQuery: return query;
      case VisionField::kAttended: return attended;
      case VisionField::kActivated: return activated;
      case VisionField::kPooled: return pooled;
      case VisionField::kSoft: return soft;
    }
    return soft;
  }
};

Vision::Vision(const model::VisionProgram& program)
    : program_(program), config_(program.config), weights_(*program.weights) {}

std::vector<Row> Vision::encode(const model::ImagePatches& image) {
  SLIP_CHECK(fits(config_, image));
  State state{image, {}, {}, {}, {}, {}, {}, {}};
  for (const VisionPhase& phase : program_.phases) {
    switch (phase.kind) {
      case VisionPhaseKind::kPatches:
        config_.kind == VisionKind::kTower ? embed_patches(state) : embed_tiles(state);
        break;
      case VisionPhaseKind::kQkv: qkv(state, phase.layer); break;
      case VisionPhaseKind::kAttend: attend(state); break;
      case VisionPhaseKind::kAttentionOut: attention_out(state, phase.layer); break;
      case VisionPhaseKind::kGateUp: gate_up(state, phase.layer); break;
      case VisionPhaseKind::kDown: down(state, phase.layer); break;
      case VisionPhaseKind::kPool: pool(state); break;
      case VisionPhaseKind::kProject: project(state); break;
    }
    if (observe) observe(phase, state.field(phase.output));
  }
  return std::move(state.soft);
}

void Vision::embed_patches(State& state) {
  for (int i = 0; i < state.image.count(); ++i) {
    const auto patch = static_cast<size_t>(i);
    Row values = state.patch(patch, config_.patch_values());
    for (float& v : values) v = 2 * (v - 0.5f);
    Row x = tables_.multiply(weights_.patch, values);
    // The two are added to each other first, as Hugging Face does.
    Row position = read_row(weights_.positions, position_row(config_, 0, state.column(patch)));
    add(position, read_row(weights_.positions, position_row(config_, 1, state.row(patch))));
    add(x, position);
    state.stream.push_back(std::move(x));
  }
}

void Vision::embed_tiles(State& state) {
  for (int i = 0; i < state.image.count(); ++i) {
    const auto patch = static_cast<size_t>(i);
    const Row values = layer_norm(state.patch(patch, config_.patch_values()), weights_.tile_norm);
    Row x = tables_.multiply(weights_.patch, values);
    add(x, weights_.patch_bias);
    x = layer_norm(x, weights_.patch_norm);
    Row position = read_row(weights_.positions, position_row(config_, 0, state.column(patch)));
    add(position, read_row(weights_.positions, position_row(config_, 1, state.row(patch))));
    add(x, position);
    state.pooled.push_back(layer_norm(x, weights_.position_norm));
  }
}

void Vision::qkv(State& state, int layer) {
  const VisionLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  state.query.clear();
  state.stored = {};
  for (size_t i = 0; i < state.stream.size(); ++i) {
    const Row x = norm(state.stream[i], weights.input_norm);
    Row q = multiply(weights.q, x), k = multiply(weights.k, x), v = multiply(weights.v, x);
    norm_heads(q, config_.head_dim, &weights.q_norm, config_.norm_epsilon);
    norm_heads(k, config_.head_dim, &weights.k_norm, config_.norm_epsilon);
    norm_heads(v, config_.head_dim, nullptr, config_.norm_epsilon);
    rotate(q, state.column(i), state.row(i));
    rotate(k, state.column(i), state.row(i));
    state.query.push_back(std::move(q));
    state.stored.keys.push_back(std::move(k));
    state.stored.values.push_back(std::move(v));
  }
}

/// The first half of a head turns with the column, the second with the row; inside each half pairs are (i, i
/// + a quarter of the head).
void Vision::rotate(Row& row, int column, int grid_row) const {
  const int half = config_.head_dim / 2, quarter = half / 2;
  for (size_t at = 0; at < row.size(); at += static_cast<size_t>(half)) {
    const int position = at / static_cast<size_t>(half) % 2 == 0 ? column : grid_row;
    float* part = &row[at];
    for (int i = 0; i < quarter; ++i) {
      const double angle = position * config_.rope_frequency(i);
      const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
      const float a = part[i], b = part[i + quarter];
      part[i] = a * c - b * s;
      part[i + quarter] = b * c + a * s;
    }
  }
}

void Vision::attend(State& state) {
  const model::LayerConfig heads{
      .heads = config_.heads, .kv_heads = config_.heads, .head_dim = config_.head_dim};
  const auto patches = static_cast<int>(state.query.size());
  state.attended.clear();
  for (const Row& query : state.query) {
    state.attended.push_back(reference::attend(query, heads, state.stored, 0, patches));
  }
}

void Vision::attention_out(State& state, int layer) {
  const VisionLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  for (size_t i = 0; i < state.stream.size(); ++i) {
    add(state.stream[i], norm(multiply(weights.o, state.attended[i]), weights.post_attention_norm));
  }
}

void Vision::gate_up(State& state, int layer) {
  const VisionLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  state.activated.clear();
  for (const Row& row : state.stream) {
    const Row x = norm(row, weights.pre_mlp_norm);
    Row activated = multiply(weights.gate, x);
    const Row up = multiply(weights.up, x);
    for (size_t i = 0; i < up.size(); ++i) activated[i] = gelu_tanh(activated[i]) * up[i];
    state.activated.push_back(std::move(activated));
  }
}

void Vision::down(State& state, int layer) {
  const VisionLayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  for (size_t i = 0; i < state.stream.size(); ++i) {
    add(state.stream[i], norm(multiply(weights.down, state.activated[i]), weights.post_mlp_norm));
  }
}

void Vision::pool(State& state) {
  const int side = config_.pool_side, columns = state.image.columns;
  const float root = std::sqrt(static_cast<float>(config_.hidden));
  for (int block = 0; block < soft_rows(config_, state.image); ++block) {
    const int top = block / (columns / side) * side, left = block % (columns / side) * side;
    Row sum(static_cast<size_t>(config_.hidden), 0.0f);
    for (int y = top; y < top + side; ++y) {
      for (int x = left; x < left + side; ++x) add(sum, state.stream[static_cast<size_t>(y * columns + x)]);
    }
    scale(sum, root / static_cast<float>(side * side));
    for (size_t i = 0; config_.standardise && i < sum.size(); ++i) {
      sum[i] = (sum[i] - weights_.std_bias[i]) * weights_.std_scale[i];
    }
    state.pooled.push_back(std::move(sum));
  }
}

void Vision::project(State& state) {
  for (Row x : state.pooled) {
    normalise(x.data(), config_.hidden, config_.norm_epsilon);
    state.soft.push_back(tables_.multiply(weights_.projection, x));
  }
}

Row Vision::multiply(const model::ClippedMatrix& product, Row x) {
  for (float& value : x) value = std::clamp(value, product.input_min, product.input_max);
  Row y = tables_.multiply(product.matrix, x);
  for (float& value : y) value = std::clamp(value, product.output_min, product.output_max);
  return y;
}

Row Vision::norm(const Row& x, const Row& weight) const {
  return reference::norm(x, weight, config_.norm_epsilon);
}

Row Vision::layer_norm(const Row& x, const model::LayerNormWeights& weights) const {
  double sum = 0, squares = 0;
  for (const float value : x) sum += value;
  const double mean = sum / static_cast<double>(x.size());
  for (const float value : x) squares += (value - mean) * (value - mean);
  const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + config_.layer_norm_epsilon);
  Row y(x.size());
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = static_cast<float>((x[i] - mean) * factor) * weights.weight[i] + weights.bias[i];
  }
  return y;
}

}  // namespace slip::reference
