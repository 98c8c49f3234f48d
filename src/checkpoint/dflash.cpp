#include "checkpoint/dflash.h"

#include <cmath>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "checkpoint/dflash_config.h"
#include "checkpoint/folder.h"
#include "checkpoint/json_text.h"
#include "checkpoint/limits.h"
#include "checkpoint/tensor_binder.h"

namespace slip::checkpoint {

namespace {

model::LayerWeights bind_layer(TensorBinder& binder, const model::DflashConfig& config, int layer,
                               const std::string& at) {
  const model::LayerConfig& shape = config.text.layers[static_cast<size_t>(layer)];
  const int64_t hidden = config.text.hidden, inner = shape.intermediate;
  model::LayerWeights weights;
  weights.input_norm = binder.vector(at + "input_layernorm.weight", hidden);
  weights.pre_mlp_norm = binder.vector(at + "post_attention_layernorm.weight", hidden);
  weights.q = binder.matrix(at + "self_attn.q_proj", {shape.q_size(), hidden});
  weights.k = binder.matrix(at + "self_attn.k_proj", {shape.kv_size(), hidden});
  weights.v = binder.matrix(at + "self_attn.v_proj", {shape.kv_size(), hidden});
  weights.o = binder.matrix(at + "self_attn.o_proj", {hidden, shape.q_size()});
  weights.q_norm = binder.vector(at + "self_attn.q_norm.weight", shape.head_dim);
  weights.k_norm = binder.vector(at + "self_attn.k_norm.weight", shape.head_dim);
  weights.gate = binder.matrix(at + "mlp.gate_proj", {inner, hidden});
  weights.up = binder.matrix(at + "mlp.up_proj", {inner, hidden});
  weights.down = binder.matrix(at + "mlp.down_proj", {hidden, inner});
  // Gemma's attention has no scale of its own, so that of this one goes into the queries.
  for (float& x : weights.q_norm) x /= std::sqrt(static_cast<float>(shape.head_dim));
  return weights;
}

model::DflashWeights bind_weights(TensorBinder& binder, const model::DflashConfig& config) {
  const std::string prefix = binder.has("model.fc.weight") ? "model." : "";
  const int64_t hidden = config.text.hidden;
  model::DflashWeights weights;
  weights.fc = binder.matrix(prefix + "fc", {hidden, hidden * static_cast<int64_t>(config.taps.size())});
  weights.context_norm = binder.vector(prefix + "hidden_norm.weight", hidden);
  weights.text.final_norm = binder.vector(prefix + "norm.weight", hidden);
  for (int layer = 0; layer < config.text.layer_count(); ++layer) {
    weights.text.layers.push_back(
        bind_layer(binder, config, layer, prefix + "layers." + std::to_string(layer) + "."));
  }
  return weights;
}

void refuse_own_embeddings(const TensorSet& tensors, const std::string& where) {
  for (const auto& [name, tensor] : tensors) {
    if (name.find("embed_tokens.") == std::string::npos && name.find("lm_head.") == std::string::npos) {
      continue;
    }
    fail_file("{}: tensor {} shows a drafter with embeddings of its own, such as DeepSeek's, but {}", where,
              in_quotes(name), kDflashFamily);
  }
}

std::optional<Leftover> known_leftover(std::string_view name) {
  if (name.find("rotary_emb.") == std::string_view::npos) return std::nullopt;
  return Leftover{"rotary_emb", "computed from config.json"};
}

}  // namespace

std::unique_ptr<DflashCheckpoint> open_dflash(const std::string& folder, const model::Config& target) {
  const std::string config_path = find_config(folder);
  ParsedDflash parsed = parse_dflash_config(read_text_file(config_path, kLargestConfig), config_path, target);
  FolderTensors mapped = map_tensors(folder);
  refuse_own_embeddings(mapped.tensors, mapped.where);

  auto checkpoint = std::make_unique<DflashCheckpoint>();
  checkpoint->config = std::move(parsed.config);
  TensorBinder binder(mapped.tensors, parsed.quantization, mapped.where);
  checkpoint->weights = bind_weights(binder, checkpoint->config);
  checkpoint->not_loaded = binder.leftovers(known_leftover);
  checkpoint->format = (binder.any_affine() ? "MLX " : "Hugging Face ") + binder.encoding_text();
  mapped.move_into(*checkpoint, folder);
  return checkpoint;
}

}  // namespace slip::checkpoint
