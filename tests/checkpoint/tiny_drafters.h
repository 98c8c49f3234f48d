// Small drafters for the TinyModel of tiny_model.h, as a config.json that a test may edit and a map of
// tensors that it may damage before it writes them. 128 columns everywhere, so that every matrix can be
// packed.
#pragma once

#include <nlohmann/json.hpp>

#include "checkpoint/config.h"
#include "checkpoint/tiny_model.h"

namespace slip::test {

inline model::Config tiny_target(const TinyModel& model = {}) {
  return checkpoint::parse_config(model.config(), "target").config;
}

inline void add_tensor(FileTensors& all, const std::string& name, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  const uint64_t key = AffineValue::key(name);
  all[name] = {"BF16", shape, bf16_bytes(count, [&](int64_t i) {
                 return static_cast<float>(keyed_uniform(key, static_cast<uint64_t>(i)) - 0.5);
               })};
}

template <typename Integer>
std::string integer_bytes(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) {
    const auto narrow = static_cast<Integer>(value);
    bytes.append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
  }
  return bytes;
}

/// Three layers: sliding, sliding, full.
struct TinyAssistant {
  bool ordered = false;  // a head of 8 centroids
  static constexpr int64_t kHidden = 128, kInner = 256, kHeads = 4, kCentroids = 8;

  nlohmann::json config() const {
    return {{"model_type", "gemma4_assistant"},
            {"architectures", {"Gemma4AssistantForCausalLM"}},
            {"backbone_hidden_size", TinyModel::kHidden},
            {"use_ordered_embeddings", ordered},
            {"num_centroids", kCentroids},
            {"centroid_intermediate_top_k", 2},
            {"text_config",
             {{"model_type", "gemma4_text"},
              {"vocab_size", TinyModel::kVocab},
              {"hidden_size", kHidden},
              {"intermediate_size", kInner},
              {"num_hidden_layers", 3},
              {"num_attention_heads", kHeads},
              {"num_key_value_heads", 1},
              {"head_dim", 64},
              {"global_head_dim", 128},
              {"sliding_window", 8},
              {"num_kv_shared_layers", 3},
              {"hidden_size_per_layer_input", 0},
              {"final_logit_softcapping", nullptr},
              {"layer_types", {"sliding_attention", "sliding_attention", "full_attention"}}}}};
  }

  FileTensors tensors() const {
    FileTensors all;
    add_tensor(all, "model.embed_tokens.weight", {TinyModel::kVocab, kHidden});
    add_tensor(all, "model.norm.weight", {kHidden});
    add_tensor(all, "pre_projection.weight", {kHidden, 2 * TinyModel::kHidden});
    add_tensor(all, "post_projection.weight", {TinyModel::kHidden, kHidden});
    if (ordered) {
      add_tensor(all, "masked_embedding.centroids.weight", {kCentroids, kHidden});
      all["masked_embedding.token_ordering"] = {"I64", {TinyModel::kVocab}, integer_bytes<int64_t>(order())};
    }
    for (int i = 0; i < 3; ++i) {
      const std::string at = "model.layers." + std::to_string(i) + ".";
      const int64_t head_dim = i == 2 ? 128 : 64;
      for (const char* norm : {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                               "post_feedforward_layernorm"}) {
        add_tensor(all, at + norm + ".weight", {kHidden});
      }
      add_tensor(all, at + "layer_scalar", {1});
      add_tensor(all, at + "self_attn.q_proj.weight", {kHeads * head_dim, kHidden});
      add_tensor(all, at + "self_attn.o_proj.weight", {kHidden, kHeads * head_dim});
      add_tensor(all, at + "self_attn.q_norm.weight", {head_dim});
      add_tensor(all, at + "mlp.gate_proj.weight", {kInner, kHidden});
      add_tensor(all, at + "mlp.up_proj.weight", {kInner, kHidden});
      add_tensor(all, at + "mlp.down_proj.weight", {kHidden, kInner});
    }
    return all;
  }

  /// 39, 38, ..., 0
  static std::vector<int64_t> order() {
    std::vector<int64_t> ids;
    for (int64_t i = TinyModel::kVocab; i-- > 0;) ids.push_back(i);
    return ids;
  }
};

/// Two layers, sliding and full, that read layers 1 and 3 of the model.
struct TinyDflash {
  static constexpr int64_t kInner = 256, kHeads = 4, kKvHeads = 2, kHeadDim = 32;

  static nlohmann::json config() {
    return {{"model_type", "qwen3"},
            {"architectures", {"DFlashDraftModel"}},
            {"block_size", 4},
            {"dflash_config", {{"mask_token_id", 4}, {"target_layer_ids", {1, 3}}}},
            {"hidden_act", "silu"},
            {"hidden_size", TinyModel::kHidden},
            {"vocab_size", TinyModel::kVocab},
            {"intermediate_size", kInner},
            {"num_hidden_layers", 2},
            {"num_attention_heads", kHeads},
            {"num_key_value_heads", kKvHeads},
            {"head_dim", kHeadDim},
            {"num_target_layers", 4},
            {"layer_types", {"sliding_attention", "full_attention"}},
            {"sliding_window", 6},
            {"final_logit_softcapping", 20.0},
            {"rms_norm_eps", 1e-5},
            {"rope_parameters", {{"rope_theta", 1000000.0}, {"rope_type", "default"}}}};
  }

  static FileTensors tensors() {
    FileTensors all;
    const int64_t hidden = TinyModel::kHidden;
    add_tensor(all, "fc.weight", {hidden, 2 * hidden});
    add_tensor(all, "hidden_norm.weight", {hidden});
    add_tensor(all, "norm.weight", {hidden});
    for (int i = 0; i < 2; ++i) {
      const std::string at = "layers." + std::to_string(i) + ".";
      add_tensor(all, at + "input_layernorm.weight", {hidden});
      add_tensor(all, at + "post_attention_layernorm.weight", {hidden});
      add_tensor(all, at + "self_attn.q_proj.weight", {kHeads * kHeadDim, hidden});
      add_tensor(all, at + "self_attn.k_proj.weight", {kKvHeads * kHeadDim, hidden});
      add_tensor(all, at + "self_attn.v_proj.weight", {kKvHeads * kHeadDim, hidden});
      add_tensor(all, at + "self_attn.o_proj.weight", {hidden, kHeads * kHeadDim});
      add_tensor(all, at + "self_attn.q_norm.weight", {kHeadDim});
      add_tensor(all, at + "self_attn.k_norm.weight", {kHeadDim});
      add_tensor(all, at + "mlp.gate_proj.weight", {kInner, hidden});
      add_tensor(all, at + "mlp.up_proj.weight", {kInner, hidden});
      add_tensor(all, at + "mlp.down_proj.weight", {hidden, kInner});
    }
    return all;
  }
};

inline void write_folder(const TempFolder& folder, const nlohmann::json& config, const FileTensors& tensors,
                         const std::string& at = "") {
  folder.write(at + "config.json", config.dump());
  folder.write(at + "model.safetensors", safetensors(tensors));
}

}  // namespace slip::test
