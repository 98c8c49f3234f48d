#include "kv/page_pool.h"

#include <algorithm>

namespace slip::kv {

PagePool::PagePool(size_t page_bytes) : page_bytes_(std::max<size_t>(page_bytes, 64)) {}

std::byte* PagePool::take() {
  if (free_.empty()) {
    slabs_.emplace_back(page_bytes_ * kPagesPerSlab, "the KV cache of full-attention layers");
    for (size_t i = kPagesPerSlab; i-- > 0;) free_.push_back(slabs_.back().data() + i * page_bytes_);
  }
  std::byte* page = free_.back();
  free_.pop_back();
  return page;
}

}  // namespace slip::kv
