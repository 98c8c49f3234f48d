#include "checkpoint/synthetic_layout.h"

#include <cmath>

#include "base/error.h"

namespace slip::checkpoint {

namespace {

using Extents = std::vector<int64_t>;

// MLX's converters never quantise the router below 8 bits: a wrong expert costs more than the bytes save.
constexpr int kRouterBits = 8;
constexpr double kNormSpread = 0.2;
// Of the scaled input embedding and of the logits. The table is input and output: a small input leaves the
// layers the last word, else every token would predict itself; the final norm makes up for it at the output.
constexpr double kEmbedDeviation = 0.4;
constexpr double kLogitDeviation = 2.5;

class LayoutBuilder {
 public:
  LayoutBuilder(const model::Config& config, const SyntheticFormat& format)
      : config_(config),
        format_(format),
        prefix_(format.mlx ? "language_model.model." : "model.language_model.") {}

  std::vector<SyntheticTensor::Spec> build() {
    const int64_t hidden = config_.hidden;
    matrix("embed_tokens", {config_.vocab, hidden}, kEmbedDeviation / std::sqrt(hidden));
    vector("norm.weight", hidden, kLogitDeviation / kEmbedDeviation, kNormSpread);
    if (config_.per_layer_dim > 0) {
      const int64_t width = int64_t{config_.layer_count()} * config_.per_layer_dim;
      // Rows are multiplied by sqrt(P) after the gather.
      matrix("embed_tokens_per_layer", {config_.per_layer_vocab, width},
             1.0 / std::sqrt(config_.per_layer_dim));
      linear("per_layer_model_projection", width, hidden);
      norm("per_layer_projection_norm", config_.per_layer_dim);
    }
    for (int i = 0; i < config_.layer_count(); ++i) layer(i);
    return std::move(specs_);
  }

 private:
  void layer(int index) {
    const model::LayerConfig& at = config_.layers[static_cast<size_t>(index)];
    const std::string name = fmt::format("layers.{}.", index);
    const int64_t hidden = config_.hidden;
    for (const char* which : {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                              "post_feedforward_layernorm"}) {
      norm(name + which, hidden);
    }
    vector(name + "layer_scalar", 1, 0.8, 0.25);
    attention(name + "self_attn.", at, config_.owns_kv(index));
    linear(name + "mlp.gate_proj", at.intermediate, hidden);
    linear(name + "mlp.up_proj", at.intermediate, hidden);
    linear(name + "mlp.down_proj", hidden, at.intermediate);
    if (config_.experts > 0) experts(name);
    if (config_.per_layer_dim > 0) {
      linear(name + "per_layer_input_gate", config_.per_layer_dim, hidden);
      linear(name + "per_layer_projection", hidden, config_.per_layer_dim);
      norm(name + "post_per_layer_input_norm", hidden);
    }
  }

  void attention(const std::string& name, const model::LayerConfig& at, bool owns_kv) {
    // Normalised q and k of head_dim values with weights w have scores of deviation w * w * sqrt(head_dim):
    // this is 2.
    const double qk = std::sqrt(2.0 / std::sqrt(at.head_dim));
    linear(name + "q_proj", at.q_size(), config_.hidden);
    linear(name + "o_proj", config_.hidden, at.q_size());
    vector(name + "q_norm.weight", at.head_dim, qk, kNormSpread);
    if (!owns_kv) return;
    linear(name + "k_proj", at.kv_size(), config_.hidden);
    vector(name + "k_norm.weight", at.head_dim, qk, kNormSpread);
    if (!at.k_is_v) linear(name + "v_proj", at.kv_size(), config_.hidden);
  }

  void experts(const std::string& name) {
    const int64_t count = config_.experts, hidden = config_.hidden, inner = config_.expert_intermediate;
    for (const char* which :
         {"pre_feedforward_layernorm_2", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2"}) {
      norm(name + which, hidden);
    }
    // The router's input has length 1, not sqrt(hidden): rows of deviation 2 give scores of deviation 2.
    matrix(name + "router.proj", {count, hidden}, 2.0, kRouterBits);
    vector(name + "router.scale", hidden, 1.0, kNormSpread);
    vector(name + "router.per_expert_scale", count, 1.0, kNormSpread);
    const double in = 1.0 / std::sqrt(hidden), out = 1.0 / std::sqrt(inner);
    if (format_.mlx) {
      matrix(name + "experts.switch_glu.gate_proj", {count, inner, hidden}, in);
      matrix(name + "experts.switch_glu.up_proj", {count, inner, hidden}, in);
      matrix(name + "experts.switch_glu.down_proj", {count, hidden, inner}, out);
    } else {
      weights(name + "experts.gate_up_proj", {count, 2 * inner, hidden}, in);
      weights(name + "experts.down_proj", {count, hidden, inner}, out);
    }
  }

  void norm(const std::string& module, int64_t size) { vector(module + ".weight", size, 1.0, kNormSpread); }

  void vector(const std::string& name, int64_t size, double centre, double spread) {
    specs_.push_back({.name = prefix_ + name, .shape = {size}, .filling = values_near(centre, spread)});
  }

  void linear(const std::string& module, int64_t rows, int64_t cols) {
    matrix(module, {rows, cols}, 1.0 / std::sqrt(cols));
  }

  void matrix(const std::string& module, const Extents& shape, double deviation, int least_bits = 0) {
    if (format_.bits == 16) return weights(module + ".weight", shape, deviation);
    affine(module, shape, deviation, std::max(format_.bits, least_bits));
  }

  void weights(const std::string& name, const Extents& shape, double deviation) {
    specs_.push_back({.name = prefix_ + name, .shape = shape, .filling = random_weights(deviation)});
  }

  void affine(const std::string& module, const Extents& shape, double deviation, int bits) {
    const int64_t cols = shape.back();
    if (cols % format_.group != 0) {
      fail_usage("groups of {} do not divide the {} columns of {} in this shape; choose groups of 64 or 32",
                 format_.group, cols, module);
    }
    Extents packed = shape, groups = shape;
    packed.back() = cols * bits / 32;
    groups.back() = cols / format_.group;
    // Uniform codes 0 .. levels have this deviation; the bias puts their middle at 0.
    const double levels = (1 << bits) - 1;
    const double scale = deviation / std::sqrt(levels * (levels + 2) / 12);
    const std::string name = prefix_ + module;
    specs_.push_back(
        {.name = name + ".weight", .dtype = tensor::DType::kU32, .shape = packed, .filling = random_codes()});
    specs_.push_back({.name = name + ".scales", .shape = groups, .filling = values_near(scale, 0.05)});
    specs_.push_back({.name = name + ".biases",
                      .shape = groups,
                      .filling = values_near(scale, 0.05, -levels / 2),
                      .stream = name + ".scales"});
  }

  const model::Config& config_;
  const SyntheticFormat& format_;
  std::string prefix_;
  std::vector<SyntheticTensor::Spec> specs_;
};

}  // namespace

std::vector<SyntheticTensor::Spec> synthetic_layout(const model::Config& config,
                                                    const SyntheticFormat& format) {
  return LayoutBuilder(config, format).build();
}

}  // namespace slip::checkpoint
