#include "synth/shapes.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/float16.h"

namespace slip::synth {

namespace {

struct Shape {
  std::string_view name;
  std::string_view model_type = "gemma4";
  int vocab = 262144;
  int hidden = 0;
  int layers = 0;
  int period = 6;  // every period-th layer is full attention, and the last one
  int heads = 0;
  int kv_heads = 0;
  int full_kv_heads = 0;
  int head_dim = 256;
  int full_head_dim = 512;
  int intermediate = 0;
  int window = 0;
  int max_positions = 0;
  int shared_layers = 0;     // the last so many layers read the cache of an earlier one
  bool double_wide = false;  // those layers have twice the intermediate size
  bool k_is_v = false;       // on full layers
  int per_layer_dim = 0;
  int experts = 0;
  int experts_per_token = 0;
  int expert_intermediate = 0;
  // Of the assistant.
  int draft_hidden = 0;
  int draft_heads = 0;
  int draft_intermediate = 0;
  int centroids = 0;  // 0 = dense head
  int kept_centroids = 0;
};

constexpr Shape kTinyMoe = {.name = "tiny-moe",
                            .vocab = 512,
                            .hidden = 128,
                            .layers = 6,
                            .period = 3,
                            .heads = 8,
                            .kv_heads = 4,
                            .full_kv_heads = 2,
                            .head_dim = 32,
                            .full_head_dim = 64,
                            .intermediate = 256,
                            .window = 24,
                            .max_positions = 4096,
                            .k_is_v = true,
                            .experts = 8,
                            .experts_per_token = 2,
                            .expert_intermediate = 128,
                            .draft_hidden = 128,
                            .draft_heads = 8,
                            .draft_intermediate = 256};
/// A row chooses as many experts as in the real one.
constexpr Shape kTinyMoe8 = [] {
  Shape shape = kTinyMoe;
  shape.name = "tiny-moe8";
  shape.experts = 16;
  shape.experts_per_token = 8;
  return shape;
}();

constexpr Shape kShapes[] = {
    {.name = "e2b",
     .hidden = 1536,
     .layers = 35,
     .period = 5,
     .heads = 8,
     .kv_heads = 1,
     .full_kv_heads = 1,
     .intermediate = 6144,
     .window = 512,
     .max_positions = 131072,
     .shared_layers = 20,
     .double_wide = true,
     .per_layer_dim = 256,
     .draft_hidden = 256,
     .draft_heads = 4,
     .draft_intermediate = 2048,
     .centroids = 2048,
     .kept_centroids = 32},
    {.name = "e4b",
     .hidden = 2560,
     .layers = 42,
     .heads = 8,
     .kv_heads = 2,
     .full_kv_heads = 2,
     .intermediate = 10240,
     .window = 512,
     .max_positions = 131072,
     .shared_layers = 18,
     .per_layer_dim = 256,
     .draft_hidden = 256,
     .draft_heads = 4,
     .draft_intermediate = 2048,
     .centroids = 2048,
     .kept_centroids = 32},
    {.name = "12b",
     .model_type = "gemma4_unified",
     .hidden = 3840,
     .layers = 48,
     .heads = 16,
     .kv_heads = 8,
     .full_kv_heads = 1,
     .intermediate = 15360,
     .window = 1024,
     .max_positions = 262144,
     .k_is_v = true,
     .draft_hidden = 1024,
     .draft_heads = 16,
     .draft_intermediate = 8192},
    {.name = "26b-a4b",
     .hidden = 2816,
     .layers = 30,
     .heads = 16,
     .kv_heads = 8,
     .full_kv_heads = 2,
     .intermediate = 2112,
     .window = 1024,
     .max_positions = 262144,
     .k_is_v = true,
     .experts = 128,
     .experts_per_token = 8,
     .expert_intermediate = 704,
     .draft_hidden = 1024,
     .draft_heads = 16,
     .draft_intermediate = 8192},
    {.name = "31b",
     .hidden = 5376,
     .layers = 60,
     .heads = 32,
     .kv_heads = 16,
     .full_kv_heads = 4,
     .intermediate = 21504,
     .window = 1024,
     .max_positions = 262144,
     .k_is_v = true,
     .draft_hidden = 1024,
     .draft_heads = 32,
     .draft_intermediate = 8192},
    {.name = "tiny-e2b",
     .vocab = 512,
     .hidden = 128,
     .layers = 8,
     .period = 4,
     .heads = 4,
     .kv_heads = 1,
     .full_kv_heads = 1,
     .head_dim = 32,
     .full_head_dim = 64,
     .intermediate = 256,
     .window = 24,
     .max_positions = 4096,
     .shared_layers = 4,
     .double_wide = true,
     .per_layer_dim = 128,
     .draft_hidden = 128,
     .draft_heads = 4,
     .draft_intermediate = 256,
     .centroids = 32,
     .kept_centroids = 4},
    {.name = "tiny-dense",
     .vocab = 517,
     .hidden = 128,
     .layers = 6,
     .period = 3,
     .heads = 4,
     .kv_heads = 2,
     .full_kv_heads = 1,
     .head_dim = 32,
     .full_head_dim = 64,
     .intermediate = 384,
     .window = 19,
     .max_positions = 4096,
     .k_is_v = true,
     .draft_hidden = 128,
     .draft_heads = 4,
     .draft_intermediate = 256},
    kTinyMoe,
    kTinyMoe8,
    {.name = "tiny-unified",
     .model_type = "gemma4_unified",
     .vocab = 512,
     .hidden = 256,
     .layers = 7,
     .heads = 12,
     .kv_heads = 4,
     .full_kv_heads = 1,
     .head_dim = 32,
     .full_head_dim = 64,
     .intermediate = 640,
     .window = 21,
     .max_positions = 4096,
     .k_is_v = true,
     .draft_hidden = 128,
     .draft_heads = 12,
     .draft_intermediate = 256},
};

// Sliding layers turn every pair, full layers a quarter of them with frequencies spread over the whole head.
model::LayerConfig layer_config(const Shape& shape, int index) {
  const bool full = (index + 1) % shape.period == 0 || index + 1 == shape.layers;
  const bool shared = index >= shape.layers - shape.shared_layers;
  model::LayerConfig layer;
  layer.kind = full ? model::LayerKind::kFull : model::LayerKind::kSliding;
  layer.heads = shape.heads;
  layer.kv_heads = full ? shape.full_kv_heads : shape.kv_heads;
  layer.head_dim = full ? shape.full_head_dim : shape.head_dim;
  layer.intermediate = shape.intermediate * (shared && shape.double_wide ? 2 : 1);
  layer.k_is_v = full && shape.k_is_v;
  layer.kv_source = index;
  layer.rotated_pairs = full ? layer.head_dim / 8 : layer.head_dim / 2;
  layer.rope_theta = full ? 1e6 : 1e4;
  return layer;
}

model::Config resolve(const Shape& shape) {
  model::Config config;
  config.model_type = shape.model_type;
  config.vocab = shape.vocab;
  config.hidden = shape.hidden;
  config.window = shape.window;
  config.logit_softcap = 30;
  config.embed_scale = round_to_bf16(std::sqrt(static_cast<float>(shape.hidden)));
  config.max_positions = shape.max_positions;
  const int first_shared = shape.layers - shape.shared_layers;
  for (int i = 0; i < shape.layers; ++i) {
    model::LayerConfig layer = layer_config(shape, i);
    if (i >= first_shared) {
      layer.kv_source = first_shared - 1;
      while (config.layers[static_cast<size_t>(layer.kv_source)].kind != layer.kind) --layer.kv_source;
    }
    config.layers.push_back(layer);
  }
  config.per_layer_dim = shape.per_layer_dim;
  config.per_layer_vocab = shape.per_layer_dim > 0 ? shape.vocab : 0;
  config.experts = shape.experts;
  config.experts_per_token = shape.experts_per_token;
  config.expert_intermediate = shape.expert_intermediate;
  config.eos_ids = {1};
  // The published models with K = V are those that see images in both directions.
  config.bidirectional_media = shape.k_is_v;
  return config;
}

const Shape& find_shape(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string known;
  for (const Shape& shape : kShapes) {
    if (shape.name == lower) return shape;
    known += (known.empty() ? "" : ", ") + std::string(shape.name);
  }
  fail_usage("there is no model shape '{}'; choose one of {}", name, known);
}

/// The last layer of a kind that owns a cache.
int last_owner(const model::Config& target, model::LayerKind kind) {
  int layer = target.layer_count() - 1;
  while (!target.owns_kv(layer) || target.layers[static_cast<size_t>(layer)].kind != kind) --layer;
  return layer;
}

}  // namespace

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

model::Config shape_config(std::string_view name) {
  return resolve(find_shape(name));
}

model::AssistantConfig assistant_shape_config(std::string_view name) {
  const Shape& shape = find_shape(name);
  const model::Config target = resolve(shape);
  model::AssistantConfig assistant;
  assistant.backbone_hidden = target.hidden;
  assistant.centroids = shape.centroids;
  assistant.kept_centroids = shape.kept_centroids;
  model::Config& text = assistant.text;
  text.model_type = target.model_type + "_assistant";
  text.vocab = target.vocab;
  text.hidden = shape.draft_hidden;
  text.window = target.window;
  text.embed_scale = round_to_bf16(std::sqrt(static_cast<float>(text.hidden)));
  text.max_positions = target.max_positions;
  text.eos_ids = target.eos_ids;
  text.borrows_kv = true;
  for (const auto kind : {model::LayerKind::kSliding, model::LayerKind::kSliding, model::LayerKind::kSliding,
                          model::LayerKind::kFull}) {
    const int source = last_owner(target, kind);
    model::LayerConfig layer = target.layers[static_cast<size_t>(source)];
    layer.heads = shape.draft_heads;
    layer.intermediate = shape.draft_intermediate;
    layer.kv_source = source;
    text.layers.push_back(layer);
  }
  return assistant;
}

}  // namespace slip::synth
