#include "checkpoint/assistant_config.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/draft_kind.h"
#include "checkpoint/json_text.h"
#include "checkpoint/limits.h"

namespace slip::checkpoint {

namespace {

using model::AssistantConfig;
using model::Config;
using model::LayerConfig;
using model::LayerKind;

void parse_centroids(const JsonObject& top, AssistantConfig& config) {
  if (!top.boolean("use_ordered_embeddings").value_or(false)) return;
  config.centroids = static_cast<int>(top.need_integer("num_centroids", 1, kMostVocab));
  config.kept_centroids =
      static_cast<int>(top.need_integer("centroid_intermediate_top_k", 1, config.centroids));
  if (config.text.vocab % config.centroids != 0) {
    fail_file("{}: the vocabulary of {} does not divide among {} centroids", top.file(), config.text.vocab,
              config.centroids);
  }
}

/// The target's last layer of this kind that owns a cache, or -1.
int cache_of_kind(const Config& target, LayerKind kind) {
  for (int layer = target.layer_count() - 1; layer >= 0; --layer) {
    if (target.owns_kv(layer) && target.layers[static_cast<size_t>(layer)].kind == kind) return layer;
  }
  return -1;
}

/// Compares what the file says of a cache with what the target's layer is.
class CacheFit {
 public:
  CacheFit(const std::string& file, int layer, int source) : file_(file), layer_(layer), source_(source) {}

  template <typename Number>
  void same(const char* what, Number own, Number target) const {
    if (own == target) return;
    fail_file(
        "{}: this assistant belongs to another model: its layer {} has {} {}, but layer {} of the model, "
        "whose cache it reads, has {}",
        file_, layer_, what, own, source_, target);
  }

 private:
  const std::string& file_;
  int layer_, source_;
};

void fit_layer(LayerConfig& layer, int index, const Config& target, const std::string& file) {
  layer.kv_source = cache_of_kind(target, layer.kind);
  if (layer.kv_source < 0) {
    fail_file(
        "{}: this assistant belongs to another model: its layer {} reads a cache of {} attention, but none "
        "of "
        "the {} layers of the model has one",
        file, index, layer.kind == LayerKind::kFull ? "full" : "sliding", target.layer_count());
  }
  const LayerConfig& source = target.layers[static_cast<size_t>(layer.kv_source)];
  const CacheFit fit(file, index, layer.kv_source);
  fit.same("key/value heads:", layer.kv_heads, source.kv_heads);
  fit.same("a head_dim of", layer.head_dim, source.head_dim);
  fit.same("a rope_theta of", layer.rope_theta, source.rope_theta);
  fit.same("a rope factor of", layer.rope_factor, source.rope_factor);
  fit.same("rotated pairs:", layer.rotated_pairs, source.rotated_pairs);
  layer.k_is_v = source.k_is_v;
  layer.v_norm = source.v_norm;
}

void same_size(const std::string& file, const char* own_name, int own, const char* target_name, int target) {
  if (own == target) return;
  fail_file("{}: this assistant belongs to another model: its {} is {}, but the model's {} is {}", file,
            own_name, own, target_name, target);
}

}  // namespace

ParsedAssistant parse_assistant_config(std::string_view text, const std::string& file) {
  const nlohmann::json document = parse_json(text, file);
  const JsonObject top(document, file);
  require_kind(top, DraftKind::kAssistant);
  const JsonObject part = top.object("text_config").value_or(top);

  ParsedAssistant parsed;
  parsed.config.text = parse_assistant_text(part);
  parsed.config.text.model_type = *top.text("model_type");
  parsed.config.backbone_hidden = static_cast<int>(top.need_integer("backbone_hidden_size", 1, kMostHidden));
  parse_centroids(top, parsed.config);
  parsed.quantization =
      parse_quantization(top.has("quantization") || top.has("quantization_config") ? top : part);
  return parsed;
}

AssistantConfig fit_assistant(AssistantConfig config, const Config& target, const std::string& file) {
  same_size(file, "backbone_hidden_size", config.backbone_hidden, "hidden_size", target.hidden);
  same_size(file, "vocab_size", config.text.vocab, "vocab_size", target.vocab);
  for (int i = 0; i < config.text.layer_count(); ++i) {
    LayerConfig& layer = config.text.layers[static_cast<size_t>(i)];
    fit_layer(layer, i, target, file);
    if (layer.kind == LayerKind::kSliding) {
      same_size(file, "sliding_window", config.text.window, "sliding_window", target.window);
    }
  }
  config.text.borrows_kv = true;
  // Tokens are the target's, and so is their embedding.
  config.text.embed_scale = target.embed_scale;
  config.text.pad_id = target.pad_id;
  config.text.bos_id = target.bos_id;
  config.text.eos_ids = target.eos_ids;
  config.text.placeholder_ids = target.placeholder_ids;
  return config;
}

}  // namespace slip::checkpoint
