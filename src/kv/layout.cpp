#include "kv/layout.h"

#include <algorithm>

#include "base/check.h"

namespace slip::kv {

Layout::Layout(const model::Config& config, Storage storage, int max_step_rows)
    : window_(config.window), storage_(storage), max_step_rows_(max_step_rows) {
  SLIP_CHECK(max_step_rows >= 1);
  layers_.resize(config.layers.size());
  for (int i = 0; i < config.layer_count(); ++i) {
    const auto& source = config.layers[static_cast<size_t>(i)];
    sources_.push_back(source.kv_source);
    if (!config.owns_kv(i)) continue;
    auto& layer = layers_[static_cast<size_t>(i)];
    layer.owned = true;
    layer.ring = source.kind == model::LayerKind::kSliding;
    layer.parts = source.k_is_v ? 1 : 2;
    layer.kv_heads = source.kv_heads;
    layer.head_dim = source.head_dim;
    layer.page_bytes = static_cast<size_t>(layer.parts) * static_cast<size_t>(source.kv_size()) *
                       kPagePositions * bytes_of(storage);
    size_t& total = layer.ring ? ring_page_bytes_ : global_page_bytes_;
    layer.page_offset = total;
    total += layer.page_bytes;
  }
  // The oldest key a step's first row sees is window - 1 behind it, the newest key written is max_step_rows -
  // 1 ahead of it. A span of that many positions touches one page more than it fills.
  if (ring_page_bytes_ > 0) ring_pages_ = (config.window + max_step_rows - 2) / kPagePositions + 2;
}

size_t Layout::bytes_at(int64_t positions) const {
  const auto pages = static_cast<size_t>((positions + kPagePositions - 1) / kPagePositions);
  return pages * global_page_bytes_ + std::min(pages, static_cast<size_t>(ring_pages_)) * ring_page_bytes_;
}

size_t Layout::bytes_read_at(int64_t position) const {
  size_t bytes = 0;
  for (const int source : sources_) {
    const auto& layer = layers_[static_cast<size_t>(source)];
    const int64_t keys = layer.ring ? std::min<int64_t>(position + 1, window_) : position + 1;
    bytes += layer.page_bytes / kPagePositions * static_cast<size_t>(keys);
  }
  return bytes;
}

}  // namespace slip::kv
