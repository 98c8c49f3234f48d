#include "synth/synthetic_layout.h"

#include <cmath>

#include "base/error.h"

namespace slip::synth {

namespace {

// MLX's converters never quantise the router below 8 bits: a wrong expert costs more than the bytes save.
constexpr int kRouterBits = 8;
constexpr double kNormSpread = 0.2;
// Of the scaled input embedding and of the logits. The table is input and output: a small input leaves the
// layers the last word, else every token would predict itself; the final norm makes up for it at the output.
constexpr double kEmbedDeviation = 0.4;
constexpr double kLogitDeviation = 2.5;

// The turning layer adds the next token's code this much larger than the token's own.
constexpr double kTurnGain = 8;
// What its gates read: far enough up for gelu to pass it on.
constexpr double kOpenGate = 2.5;
// The next token's logit before the cap of 30, which makes it 21.
constexpr double kChainLogit = 26;

class LayoutBuilder {
 public:
  LayoutBuilder(const model::Config& config, const SyntheticFormat& format, const TokenChain& chain)
      : config_(config),
        chain_(chain),
        specs_(format, format.mlx ? "language_model.model." : "model.language_model.") {}

  std::vector<SyntheticTensor::Spec> build() {
    const int64_t hidden = config_.hidden;
    embedding();
    if (config_.per_layer_dim > 0) {
      const int64_t width = int64_t{config_.layer_count()} * config_.per_layer_dim;
      // Rows are multiplied by sqrt(P) after the gather.
      specs_.matrix("embed_tokens_per_layer", {config_.per_layer_vocab, width},
                    1.0 / std::sqrt(config_.per_layer_dim));
      specs_.linear("per_layer_model_projection", width, hidden);
      specs_.norm("per_layer_projection_norm", config_.per_layer_dim);
    }
    for (int i = 0; i < config_.layer_count(); ++i) layer(i);
    return specs_.take();
  }

 private:
  bool chained() const { return chain_.code != nullptr; }
  bool turns(int layer) const { return chained() && layer == RotationCode::kTurningLayer; }

  void embedding() {
    const int64_t hidden = config_.hidden;
    if (!chained()) {
      specs_.matrix("embed_tokens", {config_.vocab, hidden}, kEmbedDeviation / std::sqrt(hidden));
      specs_.vector("norm.weight", hidden, kLogitDeviation / kEmbedDeviation, kNormSpread);
      return;
    }
    // A row has length sqrt(pairs) times the unit, the normalised stream sqrt(hidden).
    specs_.patterned("embed_tokens", config_.vocab, hidden, 1.0 / std::sqrt(hidden),
                     target_embedding(chain_.code, chain_.seed));
    specs_.vector("norm.weight", hidden, kChainLogit / std::sqrt(chain_.code->pairs()), 0);
  }

  void layer(int index) {
    const model::LayerConfig& at = config_.layers[static_cast<size_t>(index)];
    const std::string name = fmt::format("layers.{}.", index);
    const int64_t hidden = config_.hidden;
    specs_.norm(name + "input_layernorm", hidden);
    branch_norm(name + "post_attention_layernorm");
    if (chained()) {
      specs_.vector(name + "layer_scalar", 1, 1.0, 0);
    } else {
      specs_.vector(name + "layer_scalar", 1, 0.8, 0.25);
    }
    attention(name + "self_attn.", at, config_.owns_kv(index));
    if (turns(index)) {
      turning_mlp(name, at.intermediate);
    } else {
      specs_.norm(name + "pre_feedforward_layernorm", hidden);
      branch_norm(name + "post_feedforward_layernorm");
      specs_.linear(name + "mlp.gate_proj", at.intermediate, hidden);
      specs_.linear(name + "mlp.up_proj", at.intermediate, hidden);
      specs_.linear(name + "mlp.down_proj", hidden, at.intermediate);
    }
    if (config_.experts > 0) experts(name, index);
    if (config_.per_layer_dim > 0) {
      specs_.linear(name + "per_layer_input_gate", config_.per_layer_dim, hidden);
      specs_.linear(name + "per_layer_projection", hidden, config_.per_layer_dim);
      branch_norm(name + "post_per_layer_input_norm");
    }
  }

  /// down(gelu(gates) * up) is the code turned by one step: up picks its coordinates, the gates are the same
  /// for all, and the norm after it makes their size irrelevant.
  void turning_mlp(const std::string& name, int64_t inner) {
    const int64_t hidden = config_.hidden;
    const int pairs = chain_.code->pairs();
    const double constant = std::sqrt(static_cast<double>(hidden) / (pairs + 1));  // as the gates see it
    specs_.vector(name + "pre_feedforward_layernorm.weight", hidden, 1, 0);
    specs_.vector(name + "post_feedforward_layernorm.weight", hidden, kTurnGain, 0);
    specs_.patterned(name + "mlp.gate_proj", inner, hidden, kOpenGate / constant,
                     constant_gates(chain_.code));
    specs_.patterned(name + "mlp.up_proj", inner, hidden, 1, code_coordinates(chain_.code));
    specs_.patterned(name + "mlp.down_proj", hidden, inner, 1, turned_pairs(chain_.code, pairs));
  }

  void attention(const std::string& name, const model::LayerConfig& at, bool owns_kv) {
    // Normalised q and k of head_dim values with weights w have scores of deviation w * w * sqrt(head_dim):
    // this is 2.
    const double qk = std::sqrt(2.0 / std::sqrt(at.head_dim));
    specs_.linear(name + "q_proj", at.q_size(), config_.hidden);
    specs_.linear(name + "o_proj", config_.hidden, at.q_size());
    specs_.vector(name + "q_norm.weight", at.head_dim, qk, kNormSpread);
    if (!owns_kv) return;
    specs_.linear(name + "k_proj", at.kv_size(), config_.hidden);
    specs_.vector(name + "k_norm.weight", at.head_dim, qk, kNormSpread);
    if (!at.k_is_v) specs_.linear(name + "v_proj", at.kv_size(), config_.hidden);
  }

  void experts(const std::string& name, int index) {
    const int64_t count = config_.experts, hidden = config_.hidden, inner = config_.expert_intermediate;
    specs_.norm(name + "pre_feedforward_layernorm_2", hidden);
    if (turns(index)) {
      specs_.vector(name + "post_feedforward_layernorm_1.weight", hidden, 1, 0);
      branch_norm(name + "post_feedforward_layernorm_2");
    } else {
      specs_.norm(name + "post_feedforward_layernorm_1", hidden);
      specs_.norm(name + "post_feedforward_layernorm_2", hidden);
    }
    // The router's input has length 1, not sqrt(hidden): rows of deviation 2 give scores of deviation 2.
    specs_.matrix(name + "router.proj", {count, hidden}, 2.0, kRouterBits);
    specs_.vector(name + "router.scale", hidden, 1.0, kNormSpread);
    specs_.vector(name + "router.per_expert_scale", count, 1.0, kNormSpread);
    const double in = 1.0 / std::sqrt(hidden), out = 1.0 / std::sqrt(inner);
    if (specs_.format().mlx) {
      specs_.matrix(name + "experts.switch_glu.gate_proj", {count, inner, hidden}, in);
      specs_.matrix(name + "experts.switch_glu.up_proj", {count, inner, hidden}, in);
      specs_.matrix(name + "experts.switch_glu.down_proj", {count, hidden, inner}, out);
    } else {
      specs_.weights(name + "experts.gate_up_proj", {count, 2 * inner, hidden}, in);
      specs_.weights(name + "experts.down_proj", {count, hidden, inner}, out);
    }
  }

  /// After a branch that a chained target computes without listening to it.
  void branch_norm(const std::string& module) {
    if (!chained()) return specs_.norm(module, config_.hidden);
    specs_.vector(module + ".weight", config_.hidden, kQuietNorm, kNormSpread);
  }

  const model::Config& config_;
  const TokenChain& chain_;
  SpecBuilder specs_;
};

}  // namespace

void check_acceptance(double acceptance) {
  if (acceptance >= 0 && acceptance <= 1) return;
  fail_usage("an acceptance of {} does not exist; choose a share from 0 to 1", acceptance);
}

void check_group(int group) {
  if (group == 32 || group == 64 || group == 128) return;
  fail_usage("groups of {} do not exist; choose 32, 64 or 128", group);
}

std::vector<SyntheticTensor::Spec> synthetic_layout(const model::Config& config,
                                                    const SyntheticFormat& format, const TokenChain& chain) {
  return LayoutBuilder(config, format, chain).build();
}

}  // namespace slip::synth
