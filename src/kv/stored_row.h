// stored_row(): what a cache in the host's memory holds of one layer at one position, as floats; for
// comparing executors. Cost: a copy.
#pragma once

#include <cstring>
#include <vector>

#include "base/float16.h"
#include "kv/host_pages.h"

namespace slip::kv {

/// [kv heads * head dim] of part 0 (keys) or 1 (values).
inline std::vector<float> stored_row(const Cache& cache, int layer, int part, int position) {
  const auto& at = cache.layout().layers()[static_cast<size_t>(layer)];
  const HostPages pages(cache);
  std::vector<float> row;
  for (int head = 0; head < at.kv_heads; ++head) {
    const std::byte* slot = pages.slot(layer, part, head, position);
    for (int i = 0; i < at.head_dim; ++i) {
      float value = 0;
      Bf16 half{};
      if (cache.layout().storage() == Storage::kBf16) {
        std::memcpy(&half, slot + i * static_cast<int>(sizeof(half)), sizeof(half));
        value = to_float(half);
      } else {
        std::memcpy(&value, slot + i * static_cast<int>(sizeof(value)), sizeof(value));
      }
      row.push_back(value);
    }
  }
  return row;
}

}  // namespace slip::kv
