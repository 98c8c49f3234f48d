// Config: a Gemma 4 text decoder, resolved. config.json has several spellings and many defaults;
// checkpoint/config reads them all into this one struct, where every layer says plainly what it is, so that
// no code below asks twice. Invariants (checked by the reader): every size is positive, heads divides by
// kv_heads, head_dim is even, kv_source points at a layer that owns its KV and comes no later, the last layer
// is full attention.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slip::model {

enum class LayerKind { kSliding, kFull };
enum class Activation { kGeluTanh, kSilu };  // of the gate: Gemma's, and that of Qwen-like drafters

struct LayerConfig {
  LayerKind kind = LayerKind::kSliding;
  int heads = 0;     // query heads
  int kv_heads = 0;  // query head j reads kv head j / (heads / kv_heads)
  int head_dim = 0;
  int intermediate = 0;  // of the dense MLP
  bool k_is_v = false;   // no v_proj: V is the raw k_proj output, normalised without weight
  bool v_norm = true;    // V is normalised, without weight
  // The layer whose cache this one reads; its own index if it owns one. In an assistant: a layer of its
  // target.
  int kv_source = 0;
  // Rotary embedding, NeoX halves over the whole head: pair (i, i + head_dim / 2) turns by position *
  // frequency(i) for i < rotated_pairs; the other pairs pass through.
  int rotated_pairs = 0;
  double rope_theta = 0;
  double rope_factor = 1;  // divides the frequencies

  int q_size() const { return heads * head_dim; }
  int kv_size() const { return kv_heads * head_dim; }
};

struct Config {
  std::string model_type;  // "gemma4", "gemma4_unified", "gemma4_text", ...
  int vocab = 0;
  int hidden = 0;
  int window = 0;  // sliding layers see keys (position - window, position]
  float norm_epsilon = 1e-6f;
  Activation activation = Activation::kGeluTanh;
  float logit_softcap = 0;  // 0 = none
  float embed_scale = 0;    // sqrt(hidden) rounded to bf16, as Hugging Face computes it
  int max_positions = 0;
  std::vector<LayerConfig> layers;
  bool borrows_kv = false;  // an assistant: every layer reads a cache of its target

  int per_layer_dim = 0;    // P: width of the per-layer embeddings; 0 = none
  int per_layer_vocab = 0;  // rows of their table

  int experts = 0;  // 0 = dense
  int experts_per_token = 0;
  int expert_intermediate = 0;

  int pad_id = 0, bos_id = 2;
  std::vector<int> eos_ids;
  // Ids that stand for image, audio or video positions. Written out as tokens they embed as pad_id: Hugging
  // Face masks them before the lookup, and their own rows were never trained.
  std::vector<int> placeholder_ids;
  // On sliding layers, rows of one image or video frame also see the rows of it that come after them (12B,
  // 26B-A4B, 31B). Full layers stay causal.
  bool bidirectional_media = false;

  int layer_count() const { return static_cast<int>(layers.size()); }
  bool owns_kv(int layer) const {
    return !borrows_kv && layers[static_cast<size_t>(layer)].kv_source == layer;
  }
  /// Rows that want no output stop after this layer has stored their KV: nothing later reads them.
  int last_kv_layer() const;
  /// The row of the embedding table that a token reads.
  int embedding_row(int token) const;
  /// Frequency of rotary pair `i` of a layer, in radians per position.
  static double rope_frequency(const LayerConfig& layer, int i);
  /// "dense", "mixture of experts", "per-layer embeddings": for people.
  std::string kind_text() const;
};

}  // namespace slip::model
