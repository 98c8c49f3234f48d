#include "checkpoint/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/float16.h"
#include "checkpoint/json_text.h"
#include "checkpoint/limits.h"
#include "checkpoint/rope_config.h"

namespace slip::checkpoint {

namespace {

using model::LayerConfig;
using model::LayerKind;

// What Hugging Face assumes where config.json is silent.
constexpr int64_t kDefaultHeadDim = 256;
constexpr int64_t kDefaultFullHeadDim = 512;
constexpr int64_t kDefaultWindow = 512;
constexpr int64_t kDefaultPositions = 131072;
constexpr int64_t kDefaultPerLayerDim = 256;
constexpr int64_t kDefaultPattern = 6;  // every sixth layer is full attention

/// The published facts of one file: the whole object and the part of it that describes the text decoder.
struct Source {
  JsonObject top;
  JsonObject text;
  bool unified = false;
};

void check_model_type(const JsonObject& top, const std::string& type) {
  if (type.find("assistant") != std::string::npos || top.has("dflash_config")) {
    fail_file("{}: this is a drafter ({}), not a model; give the folder of the Gemma 4 model it was made for",
              top.file(), in_quotes(type));
  }
  if (type != "gemma4" && type != "gemma4_text" && type != "gemma4_unified" &&
      type != "gemma4_unified_text") {
    fail_file("{}: model_type is {}, but slipstream runs Gemma 4 (gemma4, gemma4_unified, gemma4_text)",
              top.file(), in_quotes(type));
  }
}

void check_supported(const JsonObject& text) {
  for (const char* key : {"hidden_activation", "hidden_act"}) {
    const auto activation = text.text(key);
    if (activation && *activation != "gelu_pytorch_tanh") {
      fail_file("{}: {} is {}, but slipstream computes gelu_pytorch_tanh only", text.file(),
                text.path_of(key), in_quotes(*activation));
    }
  }
  if (text.boolean("attention_bias").value_or(false)) {
    fail_file("{}: {} is true, but Gemma 4 has no attention biases and slipstream cannot use them",
              text.file(), text.path_of("attention_bias"));
  }
  const auto bidirectional = text.text("use_bidirectional_attention");
  if (bidirectional && *bidirectional == "all") {
    fail_file("{}: {} is 'all', so this is an encoder and cannot write text", text.file(),
              text.path_of("use_bidirectional_attention"));
  }
  if (bidirectional && *bidirectional != "vision") {
    fail_file("{}: {} is {}, but slipstream knows 'vision' only", text.file(),
              text.path_of("use_bidirectional_attention"), in_quotes(*bidirectional));
  }
}

std::vector<LayerKind> layer_kinds(const JsonObject& text) {
  const auto count = static_cast<size_t>(text.need_integer("num_hidden_layers", 1, kMostLayers));
  std::vector<LayerKind> kinds;
  if (const auto types = text.texts("layer_types")) {
    if (types->size() != count) {
      fail_file("{}: {} lists {} layers, but num_hidden_layers is {}", text.file(),
                text.path_of("layer_types"), types->size(), count);
    }
    for (const std::string& type : *types) {
      if (type != "sliding_attention" && type != "full_attention") {
        fail_file("{}: {} has the type {}, but it may be sliding_attention or full_attention", text.file(),
                  text.path_of("layer_types"), in_quotes(type));
      }
      kinds.push_back(type == "sliding_attention" ? LayerKind::kSliding : LayerKind::kFull);
    }
  } else {
    const int64_t pattern = text.integer("sliding_window_pattern", 1, kMostLayers).value_or(kDefaultPattern);
    for (size_t i = 0; i < count; ++i) {
      kinds.push_back((i + 1) % static_cast<size_t>(pattern) != 0 ? LayerKind::kSliding : LayerKind::kFull);
    }
  }
  kinds.back() = LayerKind::kFull;  // whatever the file says, as Hugging Face does
  return kinds;
}

/// The older spelling: one pair of keys for all full layers.
void apply_global_sizes(const JsonObject& text, std::vector<LayerConfig>& layers) {
  const auto given = text.integer("global_head_dim", 1, kMostHeadDim);
  const int64_t head_dim = given                              ? *given
                           : text.mentions("global_head_dim") ? layers.front().head_dim
                                                              : kDefaultFullHeadDim;
  // Without K = V the full layers keep the common count, even where the key is there.
  const bool k_is_v = text.boolean("attention_k_eq_v").value_or(false);
  const auto kv_heads = text.integer("num_global_key_value_heads", 1, kMostHeads);
  for (LayerConfig& layer : layers) {
    if (layer.kind != LayerKind::kFull) continue;
    layer.head_dim = static_cast<int>(head_dim);
    if (k_is_v && kv_heads) layer.kv_heads = static_cast<int>(*kv_heads);
  }
}

/// The newer spelling: exceptions by layer index, {"5": {"head_dim": 512, "num_key_value_heads": 1}}.
void apply_per_layer_config(const JsonObject& table, std::vector<LayerConfig>& layers) {
  for (const std::string& key : table.keys()) {
    size_t index = 0;
    const char* end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, index);
    if (error != std::errc{} || stop != end || index >= layers.size()) {
      fail_file("{}: {} names the layer {}, but the layers are 0 to {}", table.file(), table.path_of("*"),
                in_quotes(key), layers.size() - 1);
    }
    const auto entry = table.object(key);
    if (!entry) continue;
    LayerConfig& layer = layers[index];
    for (const std::string& field : entry->keys()) {
      if (field == "head_dim") {
        layer.head_dim = static_cast<int>(entry->integer(field, 1, kMostHeadDim).value_or(layer.head_dim));
      } else if (field == "num_key_value_heads") {
        layer.kv_heads = static_cast<int>(entry->integer(field, 1, kMostHeads).value_or(layer.kv_heads));
      } else if (field == "num_attention_heads") {
        layer.heads = static_cast<int>(entry->integer(field, 1, kMostHeads).value_or(layer.heads));
      } else if (field == "intermediate_size") {
        layer.intermediate =
            static_cast<int>(entry->integer(field, 1, kMostIntermediate).value_or(layer.intermediate));
      } else {
        fail_file("{}: {} is a setting slipstream does not know", table.file(), entry->path_of(field));
      }
    }
  }
}

/// The last `num_kv_shared_layers` layers read the cache of the last earlier layer of their kind.
void apply_kv_sharing(const JsonObject& text, std::vector<LayerConfig>& layers) {
  const auto count = static_cast<int64_t>(layers.size());
  const auto first =
      static_cast<size_t>(count - text.integer("num_kv_shared_layers", 0, count - 1).value_or(0));
  const bool double_wide = text.boolean("use_double_wide_mlp").value_or(false);
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerConfig& layer = layers[i];
    layer.kv_source = static_cast<int>(i);
    if (i < first) continue;
    if (double_wide) layer.intermediate *= 2;
    size_t source = first;
    while (source > 0 && layers[source - 1].kind != layer.kind) --source;
    if (source == 0) {
      fail_file(
          "{}: layer {} shares the cache of an earlier layer of its kind, but there is none before layer {}",
          text.file(), i, first);
    }
    layer.kv_source = static_cast<int>(source - 1);
    const LayerConfig& owner = layers[source - 1];
    if (owner.kv_heads != layer.kv_heads || owner.head_dim != layer.head_dim) {
      fail_file(
          "{}: layer {} shares the cache of layer {}, but their heads differ ({} of {} against {} of {})",
          text.file(), i, source - 1, layer.kv_heads, layer.head_dim, owner.kv_heads, owner.head_dim);
    }
  }
}

void check_layers(const std::vector<LayerConfig>& layers, const std::string& file) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerConfig& layer = layers[i];
    if (layer.heads % layer.kv_heads != 0) {
      fail_file("{}: layer {} has {} attention heads, which do not divide among {} key/value heads", file, i,
                layer.heads, layer.kv_heads);
    }
    if (layer.head_dim % 2 != 0) {
      fail_file("{}: layer {} has a head_dim of {}, which must be even", file, i, layer.head_dim);
    }
  }
}

/// The layers by themselves: whose cache they read is left open.
std::vector<LayerConfig> parse_layers(const JsonObject& text) {
  LayerConfig common;
  common.heads = static_cast<int>(text.need_integer("num_attention_heads", 1, kMostHeads));
  common.kv_heads = static_cast<int>(text.need_integer("num_key_value_heads", 1, kMostHeads));
  common.head_dim = static_cast<int>(text.integer("head_dim", 1, kMostHeadDim).value_or(kDefaultHeadDim));
  common.intermediate = static_cast<int>(text.need_integer("intermediate_size", 1, kMostIntermediate));
  const bool k_is_v = text.boolean("attention_k_eq_v").value_or(false);

  std::vector<LayerConfig> layers;
  for (const LayerKind kind : layer_kinds(text)) {
    LayerConfig& layer = layers.emplace_back(common);
    layer.kind = kind;
    layer.k_is_v = k_is_v && kind == LayerKind::kFull;
  }
  if (const auto table = text.object("per_layer_config")) {
    apply_per_layer_config(*table, layers);
  } else {
    apply_global_sizes(text, layers);
  }
  check_layers(layers, text.file());
  apply_rope(text, layers);
  return layers;
}

void parse_experts(const JsonObject& text, model::Config& config) {
  if (!text.boolean("enable_moe_block").value_or(false)) return;
  config.experts = static_cast<int>(text.need_integer("num_experts", 1, kMostExperts));
  config.experts_per_token = static_cast<int>(text.need_integer("top_k_experts", 1, kMostExperts));
  const char* size_key =
      text.has("expert_intermediate_size") ? "expert_intermediate_size" : "moe_intermediate_size";
  config.expert_intermediate = static_cast<int>(text.need_integer(size_key, 1, kMostExpertIntermediate));
  if (config.experts_per_token > config.experts) {
    fail_file("{}: {} is {}, but there are only {} experts", text.file(), text.path_of("top_k_experts"),
              config.experts_per_token, config.experts);
  }
}

void parse_per_layer_embeddings(const Source& source, model::Config& config) {
  const JsonObject& text = source.text;
  // The unified kind has no per-layer embeddings and does not mention them; the others have 256 unless they
  // say so.
  const bool assumed = !source.unified && !text.mentions("hidden_size_per_layer_input");
  config.per_layer_dim = static_cast<int>(text.integer("hidden_size_per_layer_input", 0, kMostPerLayer)
                                              .value_or(assumed ? kDefaultPerLayerDim : 0));
  if (config.per_layer_dim == 0) return;  // the key of the vocabulary may be there all the same
  config.per_layer_vocab = static_cast<int>(
      text.integer("vocab_size_per_layer_input", config.vocab, kMostVocab).value_or(config.vocab));
}

/// Token ids stand at the top, in the text part, or in both; the top is the newer word.
std::optional<std::vector<int>> token_ids(const Source& source, const std::string& key, int vocab) {
  auto ids = source.top.ids(key, vocab);
  return ids ? ids : source.text.ids(key, vocab);
}

void parse_tokens(const Source& source, model::Config& config) {
  const auto one = [&](const std::string& key, int otherwise) {
    const auto ids = token_ids(source, key, config.vocab);
    if (ids && ids->size() != 1) fail_file("{}: {} must be one token id", source.top.file(), key);
    return ids ? ids->front() : std::min(otherwise, config.vocab - 1);
  };
  config.pad_id = one("pad_token_id", 0);
  config.bos_id = one("bos_token_id", 2);
  config.eos_ids = token_ids(source, "eos_token_id", config.vocab).value_or(std::vector<int>{});
  if (config.eos_ids.empty()) config.eos_ids = {std::min(1, config.vocab - 1)};
  for (const char* key : {"image_token_id", "audio_token_id", "video_token_id"}) {
    const auto ids = source.top.ids(key, config.vocab);
    if (ids) config.placeholder_ids.insert(config.placeholder_ids.end(), ids->begin(), ids->end());
  }
}

/// What models and assistants have in common.
model::Config parse_decoder(const JsonObject& text) {
  check_supported(text);
  model::Config config;
  config.vocab = static_cast<int>(text.need_integer("vocab_size", 1, kMostVocab));
  config.hidden = static_cast<int>(text.need_integer("hidden_size", 1, kMostHidden));
  config.window =
      static_cast<int>(text.integer("sliding_window", 1, kMostPositions).value_or(kDefaultWindow));
  config.norm_epsilon = static_cast<float>(text.number("rms_norm_eps", 1e-12, 1).value_or(1e-6));
  config.logit_softcap = static_cast<float>(text.number("final_logit_softcapping", 1e-3, 1e6).value_or(0));
  config.embed_scale = round_to_bf16(std::sqrt(static_cast<float>(config.hidden)));
  config.max_positions = static_cast<int>(
      text.integer("max_position_embeddings", 1, kMostPositions).value_or(kDefaultPositions));
  config.bidirectional_media = text.has("use_bidirectional_attention");
  config.layers = parse_layers(text);
  return config;
}

}  // namespace

ParsedConfig parse_config(std::string_view text, const std::string& file) {
  const nlohmann::json document = parse_json(text, file);
  const JsonObject top(document, file);
  const auto type = top.text("model_type");
  if (!type) fail_file("{}: has no model_type, so it does not describe a Gemma 4 model", file);
  check_model_type(top, *type);
  const Source source{top, top.object("text_config").value_or(top),
                      type->find("unified") != std::string::npos};
  const JsonObject& part = source.text;

  ParsedConfig parsed;
  model::Config& config = parsed.config;
  config = parse_decoder(part);
  config.model_type = *type;
  apply_kv_sharing(part, config.layers);
  parse_per_layer_embeddings(source, config);
  parse_experts(part, config);
  parse_tokens(source, config);
  const auto tied = top.boolean("tie_word_embeddings");
  parsed.tied_head = tied ? *tied : part.boolean("tie_word_embeddings").value_or(true);
  parsed.quantization =
      parse_quantization(top.has("quantization") || top.has("quantization_config") ? top : part);
  return parsed;
}

model::Config parse_assistant_text(const JsonObject& text) {
  model::Config config = parse_decoder(text);
  const auto count = static_cast<int64_t>(config.layers.size());
  const int64_t shared = text.integer("num_kv_shared_layers", 0, count).value_or(0);
  if (shared != 0 && shared != count) {
    fail_file("{}: {} is {}, but all {} layers of an assistant read the cache of its model", text.file(),
              text.path_of("num_kv_shared_layers"), shared, count);
  }
  for (LayerConfig& layer : config.layers) layer.kv_source = -1;
  if (text.integer("hidden_size_per_layer_input", 0, kMostPerLayer).value_or(0) > 0) {
    fail_file("{}: {} is not 0, but assistants have no per-layer embeddings", text.file(),
              text.path_of("hidden_size_per_layer_input"));
  }
  if (text.boolean("enable_moe_block").value_or(false)) {
    fail_file("{}: {} is true, but assistants have no experts", text.file(),
              text.path_of("enable_moe_block"));
  }
  config.logit_softcap = 0;  // Hugging Face applies none here, whatever the file says
  return config;
}

}  // namespace slip::checkpoint
