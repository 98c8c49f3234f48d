// HostPages: the pages of a cache in the host's memory as addresses. The only way to one, and it refuses a cache whose
// pages lie on a device. Cost: two pointers; an address is two loads and a sum.
#pragma once

#include "kv/cache.h"

namespace slip::kv {

class HostPages {
 public:
  explicit HostPages(const Cache& cache) : cache_(cache) {
    SLIP_CHECK(cache.pool().side() == MemorySide::kHost);
  }

  /// The page of an owning layer that holds positions [number * kPagePositions, ...):
  /// [part][kv head][position][head dim].
  std::byte* page(int layer, int64_t number) const {
    const LayerLayout& at = cache_.layout().layers()[static_cast<size_t>(layer)];
    const Cache::Table& table = at.sliding ? cache_.sliding_ : cache_.full_;
    return reinterpret_cast<std::byte*>(
               static_cast<uintptr_t>(table.addresses[static_cast<size_t>(number)])) +
           at.page_offset;
  }
  /// [head dim] elements of one part at one position.
  std::byte* slot(int layer, int part, int kv_head, int64_t position) const {
    const LayerLayout& at = cache_.layout().layers()[static_cast<size_t>(layer)];
    const size_t row =
        (static_cast<size_t>(part) * static_cast<size_t>(at.kv_heads) + static_cast<size_t>(kv_head)) *
            kPagePositions +
        static_cast<size_t>(position % kPagePositions);
    return page(layer, position / kPagePositions) +
           row * static_cast<size_t>(at.head_dim) * bytes_of(cache_.layout().storage());
  }

 private:
  const Cache& cache_;
};

}  // namespace slip::kv
