#include "engine/cache_room.h"

#include <algorithm>

namespace slip::engine {

CacheRoom::CacheRoom(kv::PagePool& pool, const kv::Layout& layout, const speculate::Speculator* speculator)
    : pool_(pool), layout_(layout), speculator_(speculator) {}

size_t CacheRoom::needed(int64_t tokens, int step_rows) const {
  size_t bytes = layout_.bytes_while_reading(tokens, step_rows);
  if (speculator_ == nullptr) return bytes;
  for (const kv::Layout* layout : speculator_->layouts())
    bytes += layout->bytes_while_reading(tokens, step_rows);
  return bytes;
}

size_t CacheRoom::held(const kv::Cache& cache) {
  const auto pages = [&](model::LayerKind kind) {
    return static_cast<size_t>(cache.end_page(kind) - cache.first_page(kind));
  };
  return pages(model::LayerKind::kFull) * cache.layout().full_page_bytes() +
         pages(model::LayerKind::kSliding) * cache.layout().sliding_page_bytes();
}

int64_t CacheRoom::fitting(int64_t most) const {
  if (budget() == kv::PagePool::kUnlimited) return most;
  int64_t fits = 0, too_many = most + 1;
  while (fits + 1 < too_many) {
    const int64_t middle = (fits + too_many) / 2;
    (needed(middle) <= budget() ? fits : too_many) = middle;
  }
  return fits;
}

size_t CacheRoom::available() const {
  const size_t used = pool_.bytes_live() - pool_.bytes_held_only();
  return budget() - std::min(budget(), used);
}

size_t CacheRoom::next_pages() const {
  size_t bytes = layout_.full_page_bytes() + layout_.sliding_page_bytes();
  if (speculator_ == nullptr) return bytes;
  for (const kv::Layout* layout : speculator_->layouts())
    bytes += layout->full_page_bytes() + layout->sliding_page_bytes();
  return bytes;
}

}  // namespace slip::engine
