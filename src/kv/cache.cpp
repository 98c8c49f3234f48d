#include "kv/cache.h"

#include <algorithm>

#include "base/error.h"

namespace slip::kv {

Cache::Cache(const Layout& layout, PagePool& pool)
    : layout_(layout),
      pool_(pool),
      ring_(pool.allocate()(static_cast<size_t>(layout.ring_pages()) * layout.ring_page_bytes(),
                            "the KV cache of sliding layers")) {}

Cache::~Cache() {
  for (std::byte* page : pages_) pool_.free_page(page);
}

void Cache::reserve(int64_t positions) {
  const auto pages = static_cast<size_t>((positions + kPagePositions - 1) / kPagePositions);
  while (pages_.size() < pages) pages_.push_back(pool_.allocate_page());
}

void Cache::stage(int rows) {
  SLIP_CHECK(rows >= 0 && rows <= layout_.max_step_rows());
  SLIP_CHECK(length_ + int64_t{rows} <= capacity());
  staged_ = rows;
  written_ = std::max(written_, int64_t{length_} + rows);
}

std::vector<PositionRange> Cache::resident(model::LayerKind kind) const {
  if (length_ == 0) return {};
  int64_t first = 0;
  if (kind == model::LayerKind::kSliding) {
    const int64_t newest = (written_ - 1) / kPagePositions;
    first = std::max<int64_t>(0, newest - layout_.ring_pages() + 1) * kPagePositions;
  }
  if (first >= length_) return {};
  return {{first, length_}};
}

void Cache::commit(int rows) {
  SLIP_CHECK(rows >= 0 && rows <= staged_);
  length_ += rows;
  staged_ = 0;
}

void Cache::truncate(int length) {
  SLIP_CHECK(length >= 0 && length <= length_);
  length_ = length;
  staged_ = 0;
}

std::byte* Cache::slot(int layer, int part, int kv_head, int64_t position) const {
  const LayerLayout& at = layout_.layers()[static_cast<size_t>(layer)];
  const size_t row =
      (static_cast<size_t>(part) * static_cast<size_t>(at.kv_heads) + static_cast<size_t>(kv_head)) *
          kPagePositions +
      static_cast<size_t>(position % kPagePositions);
  return page(layer, position / kPagePositions) +
         row * static_cast<size_t>(at.head_dim) * bytes_of(layout_.storage());
}

}  // namespace slip::kv
