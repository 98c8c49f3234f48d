// Fuzzes parse_config() and parse_vision_config(): whatever text comes in, what comes out keeps the promises
// of model::Config and model::VisionConfig or is an Error.
#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/vision_config.h"
#include "fuzz/target.h"

namespace {

using slip::model::Config;
using slip::model::LayerConfig;
using slip::model::LayerKind;

void check_layer(const Config& config, int index) {
  const LayerConfig& layer = config.layers[static_cast<size_t>(index)];
  fuzz_check(layer.heads > 0 && layer.kv_heads > 0 && layer.heads % layer.kv_heads == 0);
  fuzz_check(layer.head_dim > 0 && layer.head_dim % 2 == 0 && layer.intermediate > 0);
  fuzz_check(layer.q_size() > 0 && layer.kv_size() > 0);
  fuzz_check(layer.rotated_pairs >= 0 && layer.rotated_pairs <= layer.head_dim / 2);
  fuzz_check(layer.rope_theta >= 1 && layer.rope_factor > 0);
  fuzz_check(!layer.k_is_v || layer.kind == LayerKind::kFull);
  fuzz_check(layer.kv_source >= 0 && layer.kv_source <= index && config.owns_kv(layer.kv_source));
  const LayerConfig& source = config.layers[static_cast<size_t>(layer.kv_source)];
  fuzz_check(source.kind == layer.kind && source.head_dim == layer.head_dim &&
             source.kv_heads == layer.kv_heads);
}

void check_config(const Config& config) {
  fuzz_check(config.vocab > 0 && config.hidden > 0 && config.window > 0 && config.max_positions > 0);
  fuzz_check(config.layer_count() > 0 && config.layers.back().kind == LayerKind::kFull);
  for (int i = 0; i < config.layer_count(); ++i) check_layer(config, i);
  fuzz_check(config.per_layer_dim >= 0 &&
             (config.per_layer_dim == 0 || config.per_layer_vocab >= config.vocab));
  fuzz_check(config.experts == 0 ||
             (config.experts_per_token > 0 && config.experts_per_token <= config.experts &&
              config.expert_intermediate > 0));
  fuzz_check(config.pad_id >= 0 && config.pad_id < config.vocab && config.bos_id >= 0 &&
             config.bos_id < config.vocab);
  fuzz_check(!config.eos_ids.empty());
  for (const int id : config.eos_ids) fuzz_check(id >= 0 && id < config.vocab);
}

void check_vision(const slip::model::VisionConfig& config) {
  fuzz_check(config.hidden > 0 && config.text_hidden > 0 && config.positions > 0);
  fuzz_check(config.patch_values() > 0 && config.patches_per_soft_row() > 0);
  if (config.kind == slip::model::VisionKind::kUnified) return fuzz_check(config.layers == 0);
  fuzz_check(config.layers > 0 && config.heads > 0 && config.intermediate > 0);
  fuzz_check(config.head_dim > 0 && config.head_dim % 4 == 0 && config.q_size() > 0);
  fuzz_check(config.rope_theta >= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    check_config(slip::checkpoint::parse_config(text, "fuzz").config);
  } catch (const slip::Error&) {
  }
  try {
    slip::model::Config decoder;
    decoder.hidden = 64;
    decoder.vocab = 1 << 18;
    const auto vision = slip::checkpoint::parse_vision_config(text, "fuzz", decoder);
    if (vision) check_vision(vision->config);
  } catch (const slip::Error&) {
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  return {
      R"({"model_type":"gemma4","vision_config":{"hidden_size":48,"intermediate_size":96,"num_hidden_layers":2,
         "num_attention_heads":3,"num_key_value_heads":3,"head_dim":16,"patch_size":16,"pooling_kernel_size":3,
         "position_embedding_size":64,"rms_norm_eps":1e-06,"standardize":false,"use_clipped_linears":true,
         "rope_parameters":{"rope_theta":100.0,"rope_type":"axial"},"hidden_activation":"gelu_pytorch_tanh",
         "attention_bias":false}})",
      R"({"model_type":"gemma4_unified","vision_config":{"mm_embed_dim":64,"mm_posemb_size":64,"patch_size":16,
         "output_proj_dims":64,"pooling_kernel_size":3,"rms_norm_eps":1e-06}})",
      R"({"model_type":"gemma4","eos_token_id":[1,6],"text_config":{"vocab_size":320,"hidden_size":64,
         "intermediate_size":96,"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":16,
         "per_layer_config":{"1":{"head_dim":32},"3":{"head_dim":32}},"sliding_window":12,"num_kv_shared_layers":2,
         "layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],
         "hidden_size_per_layer_input":16,"vocab_size_per_layer_input":320,"use_double_wide_mlp":true,
         "final_logit_softcapping":30.0,"attention_bias":false,"hidden_activation":"gelu_pytorch_tanh",
         "rope_parameters":{"full_attention":{"partial_rotary_factor":0.25,"rope_theta":1000000.0,"rope_type":
         "proportional"},"sliding_attention":{"rope_theta":10000.0,"rope_type":"default"}}},"audio_config":null})",
      R"({"model_type":"gemma4_unified","tie_word_embeddings":true,"text_config":{"vocab_size":256,"hidden_size":64,
         "intermediate_size":96,"num_hidden_layers":6,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
         "global_head_dim":32,"num_global_key_value_heads":1,"attention_k_eq_v":true,"enable_moe_block":true,
         "num_experts":8,"top_k_experts":2,"moe_intermediate_size":64,"rms_norm_eps":1e-06},
         "quantization":{"group_size":32,"bits":4,"mode":"affine","a.router.proj":{"group_size":32,"bits":8},
         "b":false}})",
      R"({"model_type":"gemma4_text","vocab_size":9,"hidden_size":2,"intermediate_size":3,"num_hidden_layers":1,
         "num_attention_heads":1,"num_key_value_heads":1,"rope_theta":10000,"rope_scaling":{"type":"linear","factor":2},
         "eos_token_id":1,"bos_token_id":2,"pad_token_id":null,"tie_word_embeddings":false})"};
}
