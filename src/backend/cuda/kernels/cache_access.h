// Device-side addresses in the KV cache of kv/layout.h, and rotations.
#pragma once

#include "backend/cuda/kernels/device.h"
#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {

inline constexpr int kCachePage = 256;  // kv::kPagePositions; checked where the two meet

/// [head_dim] elements of one part at one position. `rows` are in shared memory, the pages of `step` are not.
__device__ __forceinline__ std::byte* cache_slot(const CacheLayer& layer, const RowGroup& rows,
                                                 const Step* step, int part, int kv_head, int position) {
  const int page = position / kCachePage;
  std::byte* base = layer.ring ? rows.ring + page % layer.ring_pages * layer.ring_page_bytes
                               : load_fresh(&step->pages[rows.pages + page]);
  const int64_t row =
      static_cast<int64_t>(part * layer.kv_heads + kv_head) * kCachePage + position % kCachePage;
  return base + layer.page_offset + row * layer.head_dim * layer.element_bytes;
}

struct Turn {
  float cosine, sine;
};
__device__ __forceinline__ Turn turn_at(const Turns& turns, int position, int pair) {
  const auto read = [](const float* table, int64_t index) {
    const float2 both = __ldg(reinterpret_cast<const float2*>(table) + index);
    return Turn{both.x, both.y};
  };
  const Turn base = read(turns.base, static_cast<int64_t>(position / kCachePage) * turns.pairs + pair);
  const Turn page = read(turns.page, static_cast<int64_t>(position % kCachePage) * turns.pairs + pair);
  return {base.cosine * page.cosine - base.sine * page.sine,
          base.sine * page.cosine + base.cosine * page.sine};
}

}  // namespace slip::backend::cuda
