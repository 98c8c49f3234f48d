#include "checkpoint/vision.h"

#include <array>
#include <string>
#include <string_view>

#include "base/error.h"
#include "checkpoint/folder.h"
#include "checkpoint/json_text.h"
#include "checkpoint/limits.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_binder.h"
#include "checkpoint/vision_config.h"

namespace slip::checkpoint {

namespace {

using model::ClippedMatrix;
using model::VisionConfig;
using model::VisionKind;
using model::VisionLayerWeights;
using model::VisionWeights;

// Hugging Face, MLX.
constexpr std::array<std::string_view, 2> kPrefixes{"model.", ""};
constexpr std::array<std::string_view, 3> kGroups{"vision_tower.", "embed_vision.", "vision_embedder."};

/// Whether a tensor belongs to the vision part, under either prefix.
bool is_vision(std::string_view name) {
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    for (const std::string_view group : kGroups) {
      if (name.substr(prefix.size()).starts_with(group)) return true;
    }
  }
  return false;
}

std::optional<Leftover> known_leftover(std::string_view name) {
  if (!is_vision(name)) return Leftover{"other tensors", "not part of the vision tower"};
  if (name.find("rotary_emb.") != std::string_view::npos) {
    return Leftover{"rotary_emb", "computed from config.json"};
  }
  return std::nullopt;
}

/// The first name that is there as a module, or the first of all, for the message that it is missing.
std::string first_present(const TensorBinder& binder, const std::vector<std::string>& modules) {
  for (const std::string& module : modules) {
    if (binder.has(module + ".weight")) return module;
  }
  return modules.front();
}

class VisionBinder {
 public:
  VisionBinder(TensorBinder& binder, const VisionConfig& config, bool clipped)
      : binder_(binder), config_(config), clipped_(clipped) {}

  VisionWeights bind() {
    VisionWeights weights;
    if (config_.kind == VisionKind::kTower) {
      tower(weights);
    } else {
      unified(weights);
    }
    // Hugging Face's files, MLX's, and what transformers itself writes of the 12B.
    const std::string projection = first_present(
        binder_, {"model.embed_vision.embedding_projection", "embed_vision.embedding_projection",
                  "model.embed_vision.multimodal_embedder.embedding_projection",
                  "embed_vision.multimodal_embedder.embedding_projection"});
    weights.projection = binder_.matrix(projection, {config_.text_hidden, config_.hidden});
    return weights;
  }

 private:
  void tower(VisionWeights& weights) {
    const std::string input = first_present(
        binder_, {"model.vision_tower.patch_embedder.input_proj", "vision_tower.patch_embedder.input_proj"});
    const std::string at = input.substr(0, input.find("patch_embedder"));
    const int64_t d = config_.hidden;
    weights.patch = binder_.matrix(input, {d, config_.patch_values()});
    weights.positions =
        binder_.matrix(at + "patch_embedder.position_embedding_table", {config_.positions, d, 2});
    for (int i = 0; i < config_.layers; ++i) {
      weights.layers.push_back(layer(at + "encoder.layers." + std::to_string(i) + "."));
    }
    if (!config_.standardise) return;
    weights.std_bias = binder_.vector(at + "std_bias", d);
    weights.std_scale = binder_.vector(at + "std_scale", d);
  }

  VisionLayerWeights layer(const std::string& at) {
    const int64_t d = config_.hidden, a = config_.q_size(), inner = config_.intermediate;
    VisionLayerWeights layer;
    layer.input_norm = binder_.vector(at + "input_layernorm.weight", d);
    layer.post_attention_norm = binder_.vector(at + "post_attention_layernorm.weight", d);
    layer.pre_mlp_norm = binder_.vector(at + "pre_feedforward_layernorm.weight", d);
    layer.post_mlp_norm = binder_.vector(at + "post_feedforward_layernorm.weight", d);
    layer.q = product(at + "self_attn.q_proj", a, d);
    layer.k = product(at + "self_attn.k_proj", a, d);
    layer.v = product(at + "self_attn.v_proj", a, d);
    layer.o = product(at + "self_attn.o_proj", d, a);
    layer.q_norm = binder_.vector(at + "self_attn.q_norm.weight", config_.head_dim);
    layer.k_norm = binder_.vector(at + "self_attn.k_norm.weight", config_.head_dim);
    layer.gate = product(at + "mlp.gate_proj", inner, d);
    layer.up = product(at + "mlp.up_proj", inner, d);
    layer.down = product(at + "mlp.down_proj", d, inner);
    return layer;
  }

  ClippedMatrix product(const std::string& module, int64_t rows, int64_t cols) {
    ClippedMatrix product;
    product.matrix = binder_.matrix(module + ".linear", {rows, cols});
    if (!clipped_) return product;
    product.input_min = binder_.scalar(module + ".input_min");
    product.input_max = binder_.scalar(module + ".input_max");
    product.output_min = binder_.scalar(module + ".output_min");
    product.output_max = binder_.scalar(module + ".output_max");
    // Written so that a bound that is no number fails too.
    if (product.input_min <= product.input_max && product.output_min <= product.output_max) return product;
    fail_file(
        "{}: the bounds of {} are {} to {} and {} to {}, but each pair must be a range; download the file "
        "again",
        binder_.origin(*product.matrix.weight), in_quotes(module), product.input_min, product.input_max,
        product.output_min, product.output_max);
  }

  void unified(VisionWeights& weights) {
    const std::string dense =
        first_present(binder_, {"model.vision_embedder.patch_dense", "vision_embedder.patch_dense",
                                "model.embed_vision.patch_dense", "embed_vision.patch_dense"});
    const std::string at = dense.substr(0, dense.find("patch_dense"));
    const int64_t d = config_.hidden, values = config_.patch_values();
    weights.tile_norm = layer_norm(at + "patch_ln1", values);
    weights.patch = binder_.matrix(dense, {d, values});
    weights.patch_bias = binder_.vector(dense + ".bias", d);
    weights.patch_norm = layer_norm(at + "patch_ln2", d);
    weights.positions = binder_.matrix(at + "pos_embedding", {2, d, config_.positions});
    weights.position_norm = layer_norm(at + "pos_norm", d);
  }

  model::LayerNormWeights layer_norm(const std::string& module, int64_t size) {
    return {.weight = binder_.vector(module + ".weight", size),
            .bias = binder_.vector(module + ".bias", size)};
  }

  TensorBinder& binder_;
  const VisionConfig& config_;
  const bool clipped_;
};

}  // namespace

VisionWeights bind_vision(TensorBinder& binder, const VisionConfig& config, bool clipped) {
  return VisionBinder(binder, config, clipped).bind();
}

std::optional<Vision> open_vision(const Checkpoint& checkpoint) {
  const std::string config_path = find_config(checkpoint.path);
  const auto parsed =
      parse_vision_config(read_text_file(config_path, kLargestConfig), config_path, checkpoint.config);
  if (!parsed) return std::nullopt;
  TensorBinder binder(checkpoint.tensors, parsed->quantization, checkpoint.path);
  Vision vision{.config = parsed->config,
                .weights = bind_vision(binder, parsed->config, parsed->clipped),
                .tokens = parsed->tokens,
                .soft_tokens = read_soft_tokens(checkpoint.path)};
  binder.leftovers(known_leftover);
  return vision;
}

}  // namespace slip::checkpoint
