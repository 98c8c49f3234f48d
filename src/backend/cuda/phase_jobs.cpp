#include "backend/cuda/phase_jobs.h"

#include <cmath>

namespace slip::backend::cuda {

CacheLayer cache_layer_of(const kv::Layout& layout, int source) {
  const kv::LayerLayout& at = layout.layers()[static_cast<size_t>(source)];
  return {.ring = at.ring,
          .k_is_v = at.parts == 1,
          .kv_heads = at.kv_heads,
          .head_dim = at.head_dim,
          .element_bytes = static_cast<int>(kv::bytes_of(layout.storage())),
          .ring_pages = layout.ring_pages(),
          .ring_page_bytes = static_cast<int64_t>(layout.ring_page_bytes()),
          .page_offset = static_cast<int64_t>(at.page_offset)};
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
