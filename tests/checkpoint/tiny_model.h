// TinyModel: a small checkpoint for tests, as config.json text and a map of tensors that a test may damage
// before it writes them. Four layers, sliding and full in turn; every matrix has a multiple of 128 columns,
// so that it can be packed in any group size. Values are a function of name and index, so a test can tell
// what it should read.
#pragma once

#include <functional>
#include <string>

#include "base/float16.h"
#include "base/noise.h"
#include "checkpoint/files.h"

namespace slip::test {

/// The code of element `index` of a quantised module, and the scale and bias of its group.
struct AffineValue {
  static uint64_t key(const std::string& module) { return noise_key(7, std::hash<std::string>{}(module)); }
  static uint32_t code(const std::string& module, int bits, int64_t index) {
    return static_cast<uint32_t>(keyed_bits(key(module), static_cast<uint64_t>(index)) >> (64 - bits));
  }
  static float scale(int64_t group) { return round_to_bf16(0.01f * static_cast<float>(1 + group % 7)); }
  static float bias(int64_t group) { return round_to_bf16(-0.05f * static_cast<float>(1 + group % 5)); }
};

inline std::string bf16_bytes(int64_t count, const std::function<float(int64_t)>& value) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = to_bf16(value(i)).bits;
    bytes += static_cast<char>(bits & 0xff);
    bytes += static_cast<char>(bits >> 8);
  }
  return bytes;
}

struct TinyModel {
  bool per_layer = false;  // per-layer embeddings
  bool shared = false;     // the last two layers read the caches of the first two, and are double-wide
  bool experts = false;
  bool k_is_v = false;
  bool mlx = false;  // names of MLX
  int layers = 4;

  static constexpr int64_t kHidden = 128, kInner = 128, kVocab = 40, kWidth = 128, kExperts = 4, kHeads = 2;

  std::string prefix() const { return mlx ? "language_model.model." : "model.language_model."; }
  static int64_t head_dim(int layer) { return layer % 2 == 0 ? 64 : 128; }
  bool owns_kv(int layer) const { return !shared || layer < layers - 2; }

  std::string config() const {
    std::string types;
    for (int i = 0; i < layers; ++i) types += i % 2 == 0 ? ",\"sliding_attention\"" : ",\"full_attention\"";
    return fmt::format(
        R"({{"model_type":"gemma4","tie_word_embeddings":true,"text_config":{{"vocab_size":{},"hidden_size":{},
        "intermediate_size":{},"num_hidden_layers":{},"num_attention_heads":{},"num_key_value_heads":1,"head_dim":64,
        "global_head_dim":128,"sliding_window":8,"max_position_embeddings":64,"layer_types":[{}],
        "hidden_size_per_layer_input":{},"vocab_size_per_layer_input":{},"attention_k_eq_v":{},
        "num_kv_shared_layers":{},"use_double_wide_mlp":{},"enable_moe_block":{},"num_experts":{},"top_k_experts":2,
        "moe_intermediate_size":128,"final_logit_softcapping":30.0,"num_global_key_value_heads":null}}}})",
        kVocab, kHidden, kInner, layers, kHeads, types.substr(1), per_layer ? kWidth : 0, kVocab, k_is_v,
        shared ? 2 : 0, shared, experts, experts ? std::to_string(kExperts) : "null");
  }

  FileTensors tensors() const {
    FileTensors all;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      int64_t count = 1;
      for (const int64_t extent : shape) count *= extent;
      const uint64_t key = AffineValue::key(name);
      all[prefix() + name] = {"BF16", shape, bf16_bytes(count, [&](int64_t i) {
                                return static_cast<float>(keyed_uniform(key, static_cast<uint64_t>(i)) - 0.5);
                              })};
    };
    add("embed_tokens.weight", {kVocab, kHidden});
    add("norm.weight", {kHidden});
    if (per_layer) {
      add("embed_tokens_per_layer.weight", {kVocab, layers * kWidth});
      add("per_layer_model_projection.weight", {layers * kWidth, kHidden});
      add("per_layer_projection_norm.weight", {kWidth});
    }
    for (int i = 0; i < layers; ++i) {
      const std::string at = "layers." + std::to_string(i) + ".";
      const int64_t query = kHeads * head_dim(i), inner = shared && !owns_kv(i) ? 2 * kInner : kInner;
      for (const char* norm : {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                               "post_feedforward_layernorm"}) {
        add(at + norm + ".weight", {kHidden});
      }
      add(at + "layer_scalar", {1});
      add(at + "self_attn.q_proj.weight", {query, kHidden});
      add(at + "self_attn.o_proj.weight", {kHidden, query});
      add(at + "self_attn.q_norm.weight", {head_dim(i)});
      if (owns_kv(i)) {
        add(at + "self_attn.k_proj.weight", {head_dim(i), kHidden});
        add(at + "self_attn.k_norm.weight", {head_dim(i)});
        if (!k_is_v || i % 2 == 0) add(at + "self_attn.v_proj.weight", {head_dim(i), kHidden});
      }
      add(at + "mlp.gate_proj.weight", {inner, kHidden});
      add(at + "mlp.up_proj.weight", {inner, kHidden});
      add(at + "mlp.down_proj.weight", {kHidden, inner});
      if (per_layer) {
        add(at + "per_layer_input_gate.weight", {kWidth, kHidden});
        add(at + "per_layer_projection.weight", {kHidden, kWidth});
        add(at + "post_per_layer_input_norm.weight", {kHidden});
      }
      if (!experts) continue;
      add(at + "router.proj.weight", {kExperts, kHidden});
      add(at + "router.scale", {kHidden});
      add(at + "router.per_expert_scale", {kExperts});
      for (const char* norm :
           {"pre_feedforward_layernorm_2", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2"}) {
        add(at + norm + ".weight", {kHidden});
      }
      if (mlx) {
        add(at + "experts.switch_glu.gate_proj.weight", {kExperts, kInner, kHidden});
        add(at + "experts.switch_glu.up_proj.weight", {kExperts, kInner, kHidden});
        add(at + "experts.switch_glu.down_proj.weight", {kExperts, kHidden, kInner});
      } else {
        add(at + "experts.gate_up_proj", {kExperts, 2 * kInner, kHidden});
        add(at + "experts.down_proj", {kExperts, kHidden, kInner});
      }
    }
    return all;
  }
};

/// Replaces a module's weight by AffineValue codes, bit by bit, with scales and biases beside it.
inline void quantise(FileTensors& tensors, const std::string& module, int bits, int group) {
  FileTensor& weight = tensors.at(module + ".weight");
  const int64_t cols = weight.shape.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < weight.shape.size(); ++i) rows *= weight.shape[i];
  std::string packed(static_cast<size_t>(rows * cols * bits / 8), '\0');
  for (int64_t i = 0; i < rows * cols; ++i) {
    const uint32_t code = AffineValue::code(module, bits, i);
    for (int b = 0; b < bits; ++b) {
      const auto at = static_cast<size_t>(i * bits + b);
      if ((code >> b) & 1) packed[at / 8] = static_cast<char>(packed[at / 8] | (1 << (at % 8)));
    }
  }
  std::vector<int64_t> scale_shape = weight.shape;
  scale_shape.back() = cols / group;
  weight.shape.back() = cols * bits / 32;
  weight.dtype = "U32";
  weight.bytes = packed;
  const int64_t groups = rows * cols / group;
  tensors[module + ".scales"] = {"BF16", scale_shape, bf16_bytes(groups, AffineValue::scale)};
  tensors[module + ".biases"] = {"BF16", scale_shape, bf16_bytes(groups, AffineValue::bias)};
}

}  // namespace slip::test
