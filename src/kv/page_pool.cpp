#include "kv/page_pool.h"

#include <algorithm>
#include <utility>

#include "base/buffer.h"

namespace slip::kv {

std::shared_ptr<std::byte> host_memory(size_t bytes, const char* what) {
  auto buffer = std::make_shared<Buffer>(bytes, what);
  return {buffer, buffer->data()};
}

PagePool::PagePool(size_t page_bytes, Allocate allocate)
    : page_bytes_(std::max<size_t>(page_bytes, 64)), allocate_(std::move(allocate)) {}

std::byte* PagePool::allocate_page() {
  if (free_.empty()) {
    slabs_.push_back(allocate_(page_bytes_ * kPagesPerSlab, "the KV cache of full-attention layers"));
    for (size_t i = kPagesPerSlab; i-- > 0;) free_.push_back(slabs_.back().get() + i * page_bytes_);
  }
  std::byte* page = free_.back();
  free_.pop_back();
  return page;
}

}  // namespace slip::kv
