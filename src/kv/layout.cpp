#include "kv/layout.h"

#include <algorithm>

#include "base/check.h"

namespace slip::kv {

Layout::Layout(const model::Config& config, Storage storage, int max_step_rows)
    : window_(config.window),
      kept_(config.window),
      storage_(storage),
      max_step_rows_(max_step_rows),
      max_positions_(config.max_positions) {
  SLIP_CHECK(max_step_rows >= 1);
  layers_.resize(config.layers.size());
  for (int i = 0; i < config.layer_count(); ++i) {
    const auto& source = config.layers[static_cast<size_t>(i)];
    sources_.push_back(source.kv_source);
    if (!config.owns_kv(i)) continue;
    auto& layer = layers_[static_cast<size_t>(i)];
    layer.owned = true;
    layer.sliding = source.kind == model::LayerKind::kSliding;
    layer.parts = source.k_is_v ? 1 : 2;
    layer.kv_heads = source.kv_heads;
    layer.head_dim = source.head_dim;
    layer.page_bytes = static_cast<size_t>(layer.parts) * static_cast<size_t>(source.kv_size()) *
                       kPagePositions * bytes_of(storage);
    size_t& total = layer.sliding ? sliding_page_bytes_ : full_page_bytes_;
    layer.page_offset = total;
    total += layer.page_bytes;
  }
}

int64_t Layout::sliding_pages(int64_t positions, int step_rows) const {
  // From the first position kept to the last of the step's rows: so many positions, which at worst begin with the
  // last one of a page.
  const int64_t span = int64_t{kept_} + step_rows;
  return std::min(pages_for(positions), 1 + pages_for(span - 1));
}

size_t Layout::bytes_while_reading(int64_t positions, int step_rows) const {
  return static_cast<size_t>(pages_for(positions)) * full_page_bytes_ +
         static_cast<size_t>(sliding_pages(positions, step_rows)) * sliding_page_bytes_;
}

size_t Layout::bytes_read_at(int64_t position) const {
  size_t bytes = 0;
  for (const int source : sources_) {
    const auto& layer = layers_[static_cast<size_t>(source)];
    const int64_t keys = layer.sliding ? std::min<int64_t>(position + 1, window_) : position + 1;
    bytes += layer.page_bytes / kPagePositions * static_cast<size_t>(keys);
  }
  return bytes;
}

}  // namespace slip::kv
