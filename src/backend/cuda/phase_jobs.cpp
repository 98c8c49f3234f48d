#include "backend/cuda/phase_jobs.h"

#include <cmath>

#include "base/check.h"

namespace slip::backend::cuda {

static_assert(kCachePage == kv::kPagePositions, "attention cuts keys at the ends of pages");

CacheLayer cache_layer_of(const kv::Layout& layout, int source) {
  const kv::LayerLayout& at = layout.layers()[static_cast<size_t>(source)];
  return {.sliding = at.sliding,
          .k_is_v = at.parts == 1,
          .kv_heads = at.kv_heads,
          .head_dim = at.head_dim,
          .element_bytes = static_cast<int>(kv::bytes_of(layout.storage())),
          .page_offset = static_cast<int64_t>(at.page_offset)};
}

size_t most_table_entries(const kv::Layout& layout) {
  // Two more where a drafter's block goes beyond the last position, one more for an assistant that sees further.
  return static_cast<size_t>(kv::pages_for(layout.max_positions()) + 2 +
                             layout.sliding_pages(layout.max_positions(), layout.max_step_rows()) + 1);
}

int write_pages(const kv::Cache& cache, std::byte** table, int used, RowGroup& group) {
  int count = 0;
  for (const auto kind : {model::LayerKind::kSliding, model::LayerKind::kFull}) {
    const kv::Cache::DevicePages there = cache.device_pages(kind);
    group.pages[kind == model::LayerKind::kSliding ? 0 : 1] = used + count - static_cast<int>(there.first);
    for (const kv::DevicePage page : there.pages)
      table[used + count++] = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(page));
  }
  SLIP_CHECK(static_cast<size_t>(count) <= most_table_entries(cache.layout()));
  return count;
}

PerLayerJob per_layer_job_of(const model::Config& config, const float* norm) {
  PerLayerJob job;
  job.layers = config.layer_count();
  job.dim = config.per_layer_dim;
  job.norm = norm;
  job.scale = 1.0f / std::sqrt(static_cast<float>(config.hidden));
  job.table_scale = std::sqrt(static_cast<float>(config.per_layer_dim));
  job.epsilon = config.norm_epsilon;
  return job;
}

int tap_of(const model::Program& program, int layer) {
  int tap = -1;
  for (size_t i = 0; i < program.taps.size(); ++i) {
    if (program.taps[i] == layer) tap = static_cast<int>(i);
  }
  return tap;
}

}  // namespace slip::backend::cuda
