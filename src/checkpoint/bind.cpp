#include "checkpoint/bind.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "checkpoint/tensor_binder.h"

namespace slip::checkpoint {

namespace {

using model::Config;
using model::LayerConfig;
using model::LayerWeights;
using tensor::Matrix;

// Multimodal Hugging Face files, MLX files, text-only files, bare decoders.
constexpr std::array<std::string_view, 4> kPrefixes{"model.language_model.", "language_model.model.",
                                                    "model.", ""};

constexpr std::string_view kNoImages = "images are not supported yet";
constexpr std::string_view kNoAudio = "audio is not supported yet";
constexpr std::array<Leftover, 6> kTowers{{{"vision_tower", kNoImages},
                                           {"embed_vision", kNoImages},
                                           {"vision_embedder", kNoImages},
                                           {"audio_tower", kNoAudio},
                                           {"embed_audio", kNoAudio},
                                           {"audio_embedder", kNoAudio}}};

std::string find_prefix(const TensorSet& tensors, const std::string& where) {
  for (const std::string_view prefix : kPrefixes) {
    if (tensors.find(std::string(prefix) + "embed_tokens.weight") != nullptr) return std::string(prefix);
  }
  fail_file(
      "{}: tensor 'embed_tokens.weight' is missing under every known prefix (model.language_model., "
      "language_model.model., model.), so this is no Gemma 4 checkpoint",
      where);
}

/// Hugging Face keeps gate and up rows of each expert in one tensor, MLX keeps them apart under switch_glu.
void bind_experts(TensorBinder& binder, const Config& config, const std::string& experts,
                  model::MoeWeights& moe) {
  const int64_t hidden = config.hidden, inner = config.expert_intermediate, count = config.experts;
  if (binder.has(experts + "switch_glu.gate_proj.weight")) {
    moe.gate = binder.matrix(experts + "switch_glu.gate_proj", {inner, hidden, count});
    moe.up = binder.matrix(experts + "switch_glu.up_proj", {inner, hidden, count});
    moe.down = binder.matrix(experts + "switch_glu.down_proj", {hidden, inner, count});
    return;
  }
  moe.gate = binder.matrix(experts + "gate_up_proj", {2 * inner, hidden, count});
  moe.gate.rows = count * inner;
  moe.gate.block = inner;
  moe.gate.stride = 2 * inner;
  moe.up = moe.gate;
  moe.up.offset = inner;
  moe.down = binder.matrix(experts + "down_proj", {hidden, inner, count});
}

void bind_moe(TensorBinder& binder, const Config& config, const std::string& at, model::MoeWeights& moe) {
  const int64_t hidden = config.hidden;
  moe.router = binder.matrix(at + "router.proj", {config.experts, hidden});
  moe.router_scale = binder.vector(at + "router.scale", hidden);
  moe.per_expert_scale = binder.vector(at + "router.per_expert_scale", config.experts);
  moe.pre_norm = binder.vector(at + "pre_feedforward_layernorm_2.weight", hidden);
  moe.post_norm_dense = binder.vector(at + "post_feedforward_layernorm_1.weight", hidden);
  moe.post_norm = binder.vector(at + "post_feedforward_layernorm_2.weight", hidden);
  bind_experts(binder, config, at + "experts.", moe);
}

void bind_attention(TensorBinder& binder, const Config& config, int layer, const std::string& attention,
                    LayerWeights& weights) {
  const LayerConfig& shape = config.layers[static_cast<size_t>(layer)];
  weights.q = binder.matrix(attention + "q_proj", {shape.q_size(), config.hidden});
  weights.q_norm = binder.vector(attention + "q_norm.weight", shape.head_dim);
  weights.o = binder.matrix(attention + "o_proj", {config.hidden, shape.q_size()});
  if (!config.owns_kv(layer)) return;
  weights.k = binder.matrix(attention + "k_proj", {shape.kv_size(), config.hidden});
  weights.k_norm = binder.vector(attention + "k_norm.weight", shape.head_dim);
  if (!shape.k_is_v) weights.v = binder.matrix(attention + "v_proj", {shape.kv_size(), config.hidden});
}

/// A k or v tensor of a layer that reads another layer's cache. Early exports still have them.
bool is_unused_kv(std::string_view name, const std::string& prefix, const Config& config) {
  const std::string layers = prefix + "layers.";
  if (!name.starts_with(layers)) return false;
  name.remove_prefix(layers.size());
  int layer = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc{} || layer < 0 || layer >= config.layer_count() || config.owns_kv(layer)) {
    return false;
  }
  name.remove_prefix(static_cast<size_t>(stop - name.data()));
  return name.starts_with(".self_attn.k_proj.") || name.starts_with(".self_attn.v_proj.") ||
         name == ".self_attn.k_norm.weight";
}

/// What a tensor that was not bound is, or nothing when it is one that the decoder should have used.
std::optional<Leftover> known_leftover(std::string_view name, const std::string& prefix,
                                       const Config& config) {
  std::string_view rest = name;
  for (const std::string_view head : {"model.", "language_model.", "model."}) {
    if (rest.starts_with(head)) rest.remove_prefix(head.size());
  }
  const std::string_view first = rest.substr(0, rest.find('.'));
  for (const Leftover& tower : kTowers) {
    if (first == tower.group) return tower;
  }
  if (first == "lm_head") {
    return Leftover{"lm_head", "the embedding is the output head (tie_word_embeddings)"};
  }
  if (rest.find("rotary_emb.") != std::string_view::npos) {
    return Leftover{"rotary_emb", "computed from config.json"};
  }
  if (is_unused_kv(name, prefix, config)) {
    return Leftover{"k/v of shared layers", "these layers read the cache of an earlier one"};
  }
  if (name.starts_with(prefix)) return std::nullopt;
  return Leftover{"other tensors", "not part of the text decoder"};
}

/// The head stands beside the decoder, not under its prefix.
Matrix bind_head(TensorBinder& binder, const Config& config) {
  std::string name = "lm_head";
  for (const char* prefix : {"language_model.", "model."}) {
    if (binder.has(prefix + std::string("lm_head.weight"))) name = prefix + std::string("lm_head");
  }
  return binder.matrix(name, {config.vocab, config.hidden});
}

}  // namespace

LayerWeights bind_layer(TensorBinder& binder, const Config& config, int layer, const std::string& at) {
  LayerWeights weights;
  const int64_t hidden = config.hidden;
  const int64_t inner = config.layers[static_cast<size_t>(layer)].intermediate;
  weights.input_norm = binder.vector(at + "input_layernorm.weight", hidden);
  weights.post_attention_norm = binder.vector(at + "post_attention_layernorm.weight", hidden);
  weights.pre_mlp_norm = binder.vector(at + "pre_feedforward_layernorm.weight", hidden);
  weights.post_mlp_norm = binder.vector(at + "post_feedforward_layernorm.weight", hidden);
  weights.scalar = binder.scalar(at + "layer_scalar");
  bind_attention(binder, config, layer, at + "self_attn.", weights);
  weights.gate = binder.matrix(at + "mlp.gate_proj", {inner, hidden});
  weights.up = binder.matrix(at + "mlp.up_proj", {inner, hidden});
  weights.down = binder.matrix(at + "mlp.down_proj", {hidden, inner});
  if (config.experts > 0) bind_moe(binder, config, at, weights.moe);
  if (config.per_layer_dim > 0) {
    const int64_t width = config.per_layer_dim;
    weights.per_layer.gate = binder.matrix(at + "per_layer_input_gate", {width, hidden});
    weights.per_layer.projection = binder.matrix(at + "per_layer_projection", {hidden, width});
    weights.per_layer.post_norm = binder.vector(at + "post_per_layer_input_norm.weight", hidden);
  }
  return weights;
}

Bound bind(const TensorSet& tensors, const Config& config, const BindOptions& options) {
  const std::string prefix = find_prefix(tensors, options.where);
  TensorBinder binder(tensors, options.quantization, options.where);
  Bound bound;
  model::Weights& weights = bound.weights;
  weights.embed = binder.matrix(prefix + "embed_tokens", {config.vocab, config.hidden});
  if (!options.tied_head) weights.head = bind_head(binder, config);
  weights.final_norm = binder.vector(prefix + "norm.weight", config.hidden);
  if (config.per_layer_dim > 0) {
    const int64_t width = int64_t{config.per_layer_dim} * config.layer_count();
    weights.per_layer_embed =
        binder.matrix(prefix + "embed_tokens_per_layer", {config.per_layer_vocab, width});
    weights.per_layer_projection =
        binder.matrix(prefix + "per_layer_model_projection", {width, config.hidden});
    weights.per_layer_norm = binder.vector(prefix + "per_layer_projection_norm.weight", config.per_layer_dim);
  }
  for (int layer = 0; layer < config.layer_count(); ++layer) {
    weights.layers.push_back(
        bind_layer(binder, config, layer, prefix + "layers." + std::to_string(layer) + "."));
  }
  bound.not_loaded =
      binder.leftovers([&](std::string_view name) { return known_leftover(name, prefix, config); });
  // MLX keeps bf16 checkpoints too, under its own names.
  const bool mlx = binder.any_affine() || prefix == "language_model.model.";
  bound.format = (mlx ? "MLX " : "Hugging Face ") + binder.encoding_text();
  return bound;
}

}  // namespace slip::checkpoint
