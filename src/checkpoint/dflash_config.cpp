#include "checkpoint/dflash_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/draft_kind.h"
#include "checkpoint/json_text.h"
#include "checkpoint/limits.h"
#include "checkpoint/rope_config.h"

namespace slip::checkpoint {

namespace {

using model::Config;
using model::DflashConfig;
using model::LayerConfig;
using model::LayerKind;

constexpr int64_t kMostBlock = 1024;
constexpr int64_t kDefaultHeadDim = 128;  // of Qwen3, where config.json is silent
constexpr int64_t kDefaultPositions = 32768;

void check_family(const JsonObject& top) {
  if (top.has("speculators_config") || top.has("speculators_model_type")) {
    fail_file("{}: this drafter is in the speculators format, but {}", top.file(), kDflashFamily);
  }
  const auto names = top.texts("architectures").value_or(std::vector<std::string>{});
  if (!names.empty() && std::find(names.begin(), names.end(), "DFlashDraftModel") == names.end()) {
    fail_file("{}: this drafter is a {}, but {}", top.file(), in_quotes(names.front()), kDflashFamily);
  }
  if (!top.has("dflash_config")) {
    fail_file("{}: has no dflash_config, so this is another kind of drafter, but {}", top.file(),
              kDflashFamily);
  }
}

void check_supported(const JsonObject& top, const JsonObject& dflash) {
  const auto activation = top.text("hidden_act");
  if (activation && *activation != "silu") {
    fail_file("{}: hidden_act is {}, but slipstream computes silu only in DFlash drafters", top.file(),
              in_quotes(*activation));
  }
  if (top.boolean("attention_bias").value_or(false)) {
    fail_file("{}: attention_bias is true, but slipstream cannot use attention biases", top.file());
  }
  if (dflash.boolean("causal").value_or(false)) {
    fail_file("{}: {} is true, but slipstream lets the rows of a block see each other", top.file(),
              dflash.path_of("causal"));
  }
}

/// layer_types, or the rule of Qwen3 where they are absent.
std::vector<LayerKind> layer_kinds(const JsonObject& top) {
  const auto count = static_cast<size_t>(top.need_integer("num_hidden_layers", 1, kMostLayers));
  const auto types = top.texts("layer_types");
  if (!types) {
    std::vector<LayerKind> kinds(count, LayerKind::kFull);
    if (!top.boolean("use_sliding_window").value_or(false)) return kinds;
    const auto first = static_cast<size_t>(top.need_integer("max_window_layers", 0, kMostLayers));
    for (size_t i = first; i < count; ++i) kinds[i] = LayerKind::kSliding;
    return kinds;
  }
  if (types->size() != count) {
    fail_file("{}: layer_types lists {} layers, but num_hidden_layers is {}", top.file(), types->size(),
              count);
  }
  std::vector<LayerKind> kinds;
  for (const std::string& type : *types) {
    if (type != "sliding_attention" && type != "full_attention") {
      fail_file("{}: layer_types has the type {}, but it may be sliding_attention or full_attention",
                top.file(), in_quotes(type));
    }
    kinds.push_back(type == "sliding_attention" ? LayerKind::kSliding : LayerKind::kFull);
  }
  return kinds;
}

std::vector<LayerConfig> parse_layers(const JsonObject& top) {
  LayerConfig common;
  common.heads = static_cast<int>(top.need_integer("num_attention_heads", 1, kMostHeads));
  common.kv_heads = static_cast<int>(top.need_integer("num_key_value_heads", 1, kMostHeads));
  common.head_dim = static_cast<int>(top.integer("head_dim", 1, kMostHeadDim).value_or(kDefaultHeadDim));
  common.intermediate = static_cast<int>(top.need_integer("intermediate_size", 1, kMostIntermediate));
  common.v_norm = false;
  if (common.heads % common.kv_heads != 0) {
    fail_file("{}: {} attention heads do not divide among {} key/value heads", top.file(), common.heads,
              common.kv_heads);
  }
  if (common.head_dim % 2 != 0) {
    fail_file("{}: head_dim is {}, but must be even", top.file(), common.head_dim);
  }
  std::vector<LayerConfig> layers;
  for (const LayerKind kind : layer_kinds(top)) {
    LayerConfig& layer = layers.emplace_back(common);
    layer.kind = kind;
    layer.kv_source = static_cast<int>(layers.size()) - 1;
  }
  apply_plain_rope(top, layers);
  return layers;
}

std::vector<int> parse_taps(const JsonObject& dflash, const Config& target) {
  const nlohmann::json* list = dflash.find("target_layer_ids");
  const bool usable =
      list != nullptr && list->is_array() && !list->empty() &&
      list->size() <= static_cast<size_t>(kMostLayers) &&
      std::all_of(list->begin(), list->end(), [](const auto& id) { return id.is_number_integer(); });
  if (!usable) {
    fail_file("{}: {} must be a list of layers of the model", dflash.file(),
              dflash.path_of("target_layer_ids"));
  }
  std::vector<int> taps;
  for (const auto& id : *list) {
    // A negative one reads as a huge unsigned number and is refused with it.
    if (id.get<uint64_t>() >= target.layers.size()) {
      fail_file(
          "{}: this DFlash drafter belongs to another model: it reads layer {}, but the model's layers are 0 "
          "to {}",
          dflash.file(), id.dump(), target.layers.size() - 1);
    }
    taps.push_back(id.get<int>());
  }
  return taps;
}

void same_size(const std::string& file, const char* own_name, int64_t own, const char* target_name,
               int64_t target) {
  if (own == target) return;
  fail_file("{}: this DFlash drafter belongs to another model: its {} is {}, but the model's {} is {}", file,
            own_name, own, target_name, target);
}

void parse_text(const JsonObject& top, const Config& target, Config& text) {
  text.model_type = top.text("model_type").value_or("");
  text.hidden = static_cast<int>(top.need_integer("hidden_size", 1, kMostHidden));
  text.vocab = static_cast<int>(top.need_integer("vocab_size", 1, kMostVocab));
  same_size(top.file(), "hidden_size", text.hidden, "hidden_size", target.hidden);
  same_size(top.file(), "vocab_size", text.vocab, "vocab_size", target.vocab);
  const auto read = top.integer("num_target_layers", 1, kMostLayers);
  if (read) {
    same_size(top.file(), "num_target_layers", *read, "number of layers", target.layer_count());
  }
  text.activation = model::Activation::kSilu;
  text.norm_epsilon = static_cast<float>(top.number("rms_norm_eps", 1e-12, 1).value_or(1e-6));
  text.max_positions =
      static_cast<int>(top.integer("max_position_embeddings", 1, kMostPositions).value_or(kDefaultPositions));
  text.layers = parse_layers(top);
  const auto window = top.integer("sliding_window", 1, kMostPositions);
  for (const LayerConfig& layer : text.layers) {
    if (layer.kind == LayerKind::kSliding && !window) {
      fail_file("{}: has layers of sliding attention, but no sliding_window", top.file());
    }
  }
  text.window = static_cast<int>(window.value_or(target.window));  // without such layers nobody asks

  // What is borrowed from the target.
  text.logit_softcap =
      static_cast<float>(top.number("final_logit_softcapping", 1e-3, 1e6).value_or(target.logit_softcap));
  text.embed_scale = target.embed_scale;
  text.pad_id = target.pad_id;
  text.bos_id = target.bos_id;
  text.eos_ids = target.eos_ids;
  text.placeholder_ids = target.placeholder_ids;
}

}  // namespace

ParsedDflash parse_dflash_config(std::string_view text, const std::string& file, const Config& target) {
  const nlohmann::json document = parse_json(text, file);
  const JsonObject top(document, file);
  require_kind(top, DraftKind::kDflash);
  check_family(top);
  const JsonObject dflash = *top.object("dflash_config");
  check_supported(top, dflash);

  ParsedDflash parsed;
  DflashConfig& config = parsed.config;
  parse_text(top, target, config.text);
  config.taps = parse_taps(dflash, target);
  config.mask_id = static_cast<int>(dflash.need_integer("mask_token_id", 0, config.text.vocab - 1));
  config.block =
      static_cast<int>((top.has("block_size") ? top : dflash).need_integer("block_size", 2, kMostBlock));
  parsed.quantization = parse_quantization(top);
  return parsed;
}

}  // namespace slip::checkpoint
