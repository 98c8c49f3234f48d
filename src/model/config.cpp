#include "model/config.h"

#include <cmath>

namespace slip::model {

int Config::last_kv_layer() const {
  int last = 0;
  for (int i = 0; i < layer_count(); ++i) {
    if (owns_kv(i)) last = i;
  }
  return last;
}

int Config::embedding_row(int token) const {
  for (const int id : placeholder_ids) {
    if (id == token) return pad_id;
  }
  return token;
}

double Config::rope_frequency(const LayerConfig& layer, int i) {
  if (i >= layer.rotated_pairs) return 0;
  return std::pow(layer.rope_theta, -2.0 * i / layer.head_dim) / layer.rope_factor;
}

std::string Config::kind_text() const {
  std::string text = experts > 0 ? "mixture of experts" : "dense";
  if (per_layer_dim > 0) text += " with per-layer embeddings";
  return text;
}

}  // namespace slip::model
