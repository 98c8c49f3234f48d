#include "synth/writer_config.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace slip::synth {

namespace {

using Json = nlohmann::ordered_json;
using model::Config;
using model::LayerConfig;
using model::LayerKind;

// The double that prints as the float does: 0.95, not 0.949999988.
double shortest(float value) {
  return std::stod(fmt::format("{}", value));
}

bool is_full(const LayerConfig& layer) {
  return layer.kind == LayerKind::kFull;
}

// The first layer of a kind stands for all of them; null when there is none.
const LayerConfig* first_of(const Config& config, LayerKind kind) {
  const auto at = std::find_if(config.layers.begin(), config.layers.end(),
                               [kind](const LayerConfig& layer) { return layer.kind == kind; });
  return at == config.layers.end() ? nullptr : &*at;
}

Json rope_parameters(const LayerConfig& layer) {
  Json rope{{"rope_theta", layer.rope_theta}};
  if (is_full(layer)) {
    rope["rope_type"] = "proportional";
    rope["partial_rotary_factor"] = 2.0 * layer.rotated_pairs / layer.head_dim;
  } else {
    rope["rope_type"] = "default";
  }
  if (layer.rope_factor != 1) rope["factor"] = layer.rope_factor;
  return rope;
}

int shared_layers(const Config& config) {
  int shared = 0;
  for (int i = 0; i < config.layer_count(); ++i) shared += config.owns_kv(i) ? 0 : 1;
  return shared;
}

bool is_double_wide(const Config& config, const LayerConfig& base) {
  return shared_layers(config) > 0 && config.layers.back().intermediate == 2 * base.intermediate;
}

void add_layers(const Config& config, const LayerConfig& base, Json& text) {
  Json kinds = Json::array(), rope = Json::object();
  for (const LayerConfig& layer : config.layers) {
    const char* kind = is_full(layer) ? "full_attention" : "sliding_attention";
    kinds.push_back(kind);
    if (!rope.contains(kind)) rope[kind] = rope_parameters(layer);
  }
  const LayerConfig* full = first_of(config, LayerKind::kFull);
  text["layer_types"] = kinds;
  text["rope_parameters"] = rope;
  text["num_kv_shared_layers"] = shared_layers(config);
  text["attention_k_eq_v"] = full != nullptr && full->k_is_v;
  text["intermediate_size"] = base.intermediate;
  text["use_double_wide_mlp"] = is_double_wide(config, base);
}

/// What each layer has different from `base`: {"5": {"head_dim": 512}}.
Json per_layer_config(const Config& config, const LayerConfig& base) {
  const bool double_wide = is_double_wide(config, base);
  Json table = Json::object();
  for (int i = 0; i < config.layer_count(); ++i) {
    const LayerConfig& layer = config.layers[static_cast<size_t>(i)];
    // Readers double the layers that share KV after the exceptions of this table.
    const int intermediate = layer.intermediate / (double_wide && !config.owns_kv(i) ? 2 : 1);
    Json own = Json::object();
    if (layer.head_dim != base.head_dim) own["head_dim"] = layer.head_dim;
    if (layer.kv_heads != base.kv_heads) own["num_key_value_heads"] = layer.kv_heads;
    if (layer.heads != base.heads) own["num_attention_heads"] = layer.heads;
    if (intermediate != base.intermediate) own["intermediate_size"] = intermediate;
    if (!own.empty()) table[std::to_string(i)] = own;
  }
  return table;
}

/// The older spelling knows one exception: full layers may have their own head size and, with K = V, KV
/// heads.
void add_global_sizes(const Config& config, const LayerConfig& base, Json& text) {
  const LayerConfig* full = first_of(config, LayerKind::kFull);
  if (full == nullptr) full = &base;
  Config uniform = config;
  for (LayerConfig& layer : uniform.layers) {
    if (!is_full(layer)) continue;
    if (layer.head_dim == full->head_dim) layer.head_dim = base.head_dim;
    if (full->k_is_v && layer.kv_heads == full->kv_heads) layer.kv_heads = base.kv_heads;
  }
  if (!per_layer_config(uniform, base).empty()) {
    fail_usage("config.json with global_head_dim cannot describe this model's layers; use per_layer_config");
  }
  text["global_head_dim"] = full->head_dim;
  text["num_global_key_value_heads"] = full->k_is_v ? Json(full->kv_heads) : Json(nullptr);
}

Json text_config(const Config& config, ConfigSpelling spelling) {
  const LayerConfig* sliding = first_of(config, LayerKind::kSliding);
  const LayerConfig& base = sliding != nullptr ? *sliding : config.layers.front();
  const bool experts = config.experts > 0;
  Json text{{"vocab_size", config.vocab},
            {"hidden_size", config.hidden},
            {"num_hidden_layers", config.layer_count()},
            {"num_attention_heads", base.heads},
            {"num_key_value_heads", base.kv_heads},
            {"head_dim", base.head_dim},
            {"sliding_window", config.window},
            {"max_position_embeddings", config.max_positions},
            {"rms_norm_eps", shortest(config.norm_epsilon)},
            {"hidden_activation", "gelu_pytorch_tanh"},
            {"attention_bias", false},
            {"use_bidirectional_attention", config.bidirectional_media ? Json("vision") : Json(nullptr)}};
  text["final_logit_softcapping"] =
      config.logit_softcap > 0 ? Json(shortest(config.logit_softcap)) : Json(nullptr);
  add_layers(config, base, text);
  if (spelling == ConfigSpelling::kPerLayer) {
    text["per_layer_config"] = per_layer_config(config, base);
  } else {
    add_global_sizes(config, base, text);
  }
  text["hidden_size_per_layer_input"] = config.per_layer_dim;
  text["vocab_size_per_layer_input"] = config.per_layer_vocab;
  text["enable_moe_block"] = experts;
  text["num_experts"] = experts ? Json(config.experts) : Json(nullptr);
  text["top_k_experts"] = experts ? Json(config.experts_per_token) : Json(nullptr);
  text["moe_intermediate_size"] = experts ? Json(config.expert_intermediate) : Json(nullptr);
  text["pad_token_id"] = config.pad_id;
  text["bos_token_id"] = config.bos_id;
  text["eos_token_id"] = config.eos_ids.size() == 1 ? Json(config.eos_ids[0]) : Json(config.eos_ids);
  return text;
}

std::vector<const tensor::Matrix*> all_matrices(const model::Weights& weights) {
  std::vector<const tensor::Matrix*> all{&weights.embed, &weights.head, &weights.per_layer_embed,
                                         &weights.per_layer_projection};
  for (const model::LayerWeights& layer : weights.layers) {
    for (const tensor::Matrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down, &layer.moe.router,
          &layer.moe.gate, &layer.moe.up, &layer.moe.down, &layer.per_layer.gate,
          &layer.per_layer.projection}) {
      all.push_back(matrix);
    }
  }
  return all;
}

// MLX's table: the most common format, and every module that differs from it. Empty when nothing is
// quantised.
Json quantisation_table(const std::vector<const tensor::Matrix*>& matrices) {
  std::map<std::pair<int, int>, int> votes;  // {group, bits} -> matrices
  std::map<std::string, std::pair<int, int>> modules;
  for (const tensor::Matrix* matrix : matrices) {
    if (!matrix->present() || matrix->encoding != tensor::Encoding::kAffine) continue;
    const std::string& stored = matrix->weight->name();
    modules[stored.substr(0, stored.rfind('.'))] = {matrix->group, matrix->bits};
    ++votes[{matrix->group, matrix->bits}];
  }
  if (modules.empty()) return {};
  const auto common = std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->first;
  Json table{{"group_size", common.first}, {"bits", common.second}, {"mode", "affine"}};
  for (const auto& [module, format] : modules) {
    if (format != common) table[module] = {{"group_size", format.first}, {"bits", format.second}};
  }
  return table;
}

}  // namespace

std::string config_text(const Checkpoint& checkpoint, ConfigSpelling spelling) {
  const Config& config = checkpoint.config;
  const bool unified = config.model_type.starts_with("gemma4_unified");
  const std::string type = unified ? "gemma4_unified" : "gemma4";
  const bool tied = !checkpoint.weights.head.present();
  Json text = text_config(config, spelling);
  text["model_type"] = type + "_text";
  text["tie_word_embeddings"] = tied;
  Json whole{{"architectures",
              {unified ? "Gemma4UnifiedForConditionalGeneration" : "Gemma4ForConditionalGeneration"}},
             {"model_type", type},
             {"dtype", "bfloat16"},
             {"tie_word_embeddings", tied},
             {"text_config", text}};
  const Json table = quantisation_table(all_matrices(checkpoint.weights));
  if (!table.empty()) whole["quantization"] = whole["quantization_config"] = table;
  return whole.dump(2) + "\n";
}

std::string generation_text(const Checkpoint& checkpoint) {
  const checkpoint::GenerationConfig& from = checkpoint.generation;
  Json out{{"do_sample", from.do_sample},
           {"temperature", shortest(from.temperature)},
           {"top_p", shortest(from.top_p)},
           {"bos_token_id", checkpoint.config.bos_id},
           {"pad_token_id", checkpoint.config.pad_id},
           {"eos_token_id", from.stop_ids}};
  if (from.top_k > 0) out["top_k"] = from.top_k;
  if (from.min_p > 0) out["min_p"] = shortest(from.min_p);
  if (from.repetition_penalty != 1.0f) out["repetition_penalty"] = shortest(from.repetition_penalty);
  if (!from.suppress_ids.empty()) out["suppress_tokens"] = from.suppress_ids;
  return out.dump(2) + "\n";
}

std::string assistant_config_text(const AssistantCheckpoint& assistant, ConfigSpelling spelling) {
  Config config = assistant.config.text;
  const bool unified = config.model_type.starts_with("gemma4_unified");
  // In the file all its layers share caches; whose, the reader finds in the target.
  for (LayerConfig& layer : config.layers) layer.kv_source = -1;
  Json text = text_config(config, spelling);
  text["model_type"] = unified ? "gemma4_unified_text" : "gemma4_text";
  text["tie_word_embeddings"] = true;
  const bool ordered = assistant.config.centroids > 0;
  // Published dense ones name 2048 and 32 all the same and do not use them.
  Json whole{
      {"architectures", {unified ? "Gemma4UnifiedAssistantForCausalLM" : "Gemma4AssistantForCausalLM"}},
      {"model_type", config.model_type},
      {"dtype", "bfloat16"},
      {"backbone_hidden_size", assistant.config.backbone_hidden},
      {"use_ordered_embeddings", ordered},
      {"num_centroids", ordered ? assistant.config.centroids : 2048},
      {"centroid_intermediate_top_k", ordered ? assistant.config.kept_centroids : 32},
      {"tie_word_embeddings", true},
      {"text_config", text}};
  std::vector<const tensor::Matrix*> matrices = all_matrices(assistant.weights.text);
  for (const tensor::Matrix* matrix : {&assistant.weights.pre_projection, &assistant.weights.post_projection,
                                       &assistant.weights.centroids}) {
    matrices.push_back(matrix);
  }
  const Json table = quantisation_table(matrices);
  if (!table.empty()) whole["quantization"] = whole["quantization_config"] = table;
  return whole.dump(2) + "\n";
}

std::string assistant_generation_text(const AssistantCheckpoint& assistant) {
  const Config& config = assistant.config.text;
  return Json{{"bos_token_id", config.bos_id},
              {"pad_token_id", config.pad_id},
              {"eos_token_id", config.eos_ids}}
             .dump(2) +
         "\n";
}

}  // namespace slip::synth
