#include "kv/cache.h"

#include <algorithm>

namespace slip::kv {

using model::LayerKind;

PageClasses add_classes(PagePool& pool, const Layout& layout) {
  const PageClass full = pool.add_class(layout.full_page_bytes());
  return {.full = full, .sliding = pool.add_class(layout.sliding_page_bytes())};
}

Cache::Cache(const Layout& layout, PagePool& pool, const PageClasses& classes)
    : layout_(layout), pool_(pool) {
  full_ = {.page_class = classes.full, .used = layout.full_page_bytes() > 0};
  sliding_ = {.page_class = classes.sliding, .used = layout.sliding_page_bytes() > 0};
  SLIP_CHECK(pool.page_bytes(classes.full) == layout.full_page_bytes());
  SLIP_CHECK(pool.page_bytes(classes.sliding) == layout.sliding_page_bytes());
  const auto most =
      static_cast<size_t>(pages_for(layout.max_positions()) + pages_for(layout.max_step_rows()));
  for (Table* table : {&full_, &sliding_}) {
    if (!table->used) continue;
    table->pages.reserve(most);
    table->addresses.reserve(most);
  }
}

void Cache::put(Table& table, Page* page) {
  table.pages.push_back(page);
  table.addresses.push_back(page->address_);
}

/// Gives back the pages from number `end` on.
void Cache::cut(Table& table, int64_t end) {
  while (static_cast<int64_t>(table.pages.size()) > end) {
    if (static_cast<int64_t>(table.pages.size()) > table.first) pool_.unref(table.pages.back());
    table.pages.pop_back();
    table.addresses.pop_back();
  }
  table.first = std::min(table.first, end);
}

void Cache::drop_before(Table& table, int64_t first) {
  for (; table.first < first && table.first < static_cast<int64_t>(table.pages.size()); ++table.first) {
    Page*& page = table.pages[static_cast<size_t>(table.first)];
    pool_.unref(page);
    page = nullptr;
  }
}

/// Pages up to number `end`; what it got before it was refused stays.
bool Cache::extend(Table& table, int64_t end) {
  while (table.used && static_cast<int64_t>(table.pages.size()) < end) {
    Page* page = pool_.allocate(table.page_class);
    if (page == nullptr) return false;
    put(table, page);
  }
  return true;
}

bool Cache::grow(int rows) {
  SLIP_CHECK(rows >= 0);
  const int64_t wanted = int64_t{length_} + rows;
  if (wanted <= grown_) return true;
  const int64_t end = pages_for(wanted), full = end_page(LayerKind::kFull),
                sliding = end_page(LayerKind::kSliding);
  bool enough = false;
  try {
    enough = extend(full_, end) && extend(sliding_, end);
  } catch (...) {
    cut(full_, full);
    cut(sliding_, sliding);
    throw;
  }
  if (!enough) {
    cut(full_, full);
    cut(sliding_, sliding);
    return false;
  }
  grown_ = end * kPagePositions;
  return true;
}

void Cache::stage(int rows) {
  SLIP_CHECK(rows <= layout_.max_step_rows());
  const bool there = grow(rows);
  SLIP_CHECK(there);
  staged_ = rows;
}

void Cache::commit(int rows) {
  SLIP_CHECK(rows >= 0 && rows <= staged_);
  length_ += rows;
  staged_ = 0;
  if (trims_itself_) trim();
}

void Cache::trim() {
  drop_before(sliding_, layout_.first_kept(length_) / kPagePositions);
}

void Cache::truncate(int length) {
  SLIP_CHECK(length >= shared_ && length <= length_);
  SLIP_CHECK(length == 0 || sliding_.first * kPagePositions <= std::max(0, length - layout_.window() + 1));
  length_ = length;
  staged_ = 0;
  const int64_t end = pages_for(length);
  cut(full_, end);
  cut(sliding_, end);
  grown_ = end * kPagePositions;
}

void Cache::release() {
  cut(full_, 0);
  cut(sliding_, 0);
  grown_ = 0;
  length_ = staged_ = shared_ = 0;
  trims_itself_ = true;
}

void Cache::share_up_to(int position) {
  SLIP_CHECK(position <= length_);
  shared_ = std::max(shared_, position);
}

/// Refers to all of the pages.
void Cache::put_prefix(Table& table, std::span<Page* const> pages, int length) {
  const int64_t end = pages_for(length);
  SLIP_CHECK(static_cast<int64_t>(pages.size()) <= end);
  table.first = end - static_cast<int64_t>(pages.size());
  table.pages.resize(static_cast<size_t>(table.first));
  table.addresses.resize(static_cast<size_t>(table.first));
  for (Page* page : pages) {
    SLIP_CHECK(page->page_class() == table.page_class);
    pool_.ref(page);
    put(table, page);
  }
}

/// The last page becomes a copy that this sequence may go on writing.
bool Cache::own_last_page(Table& table) {
  if (!table.used) return true;
  Page* own = pool_.allocate(table.page_class);
  if (own == nullptr) return false;
  pool_.copy(own, table.pages.back());
  cut(table, static_cast<int64_t>(table.pages.size()) - 1);
  put(table, own);
  return true;
}

bool Cache::adopt(const Prefix& prefix) {
  SLIP_CHECK(length_ == 0 && grown_ == 0 && staged_ == 0);
  if (prefix.length == 0) return true;
  const int64_t end = pages_for(prefix.length);
  const int64_t first_kept = layout_.first_kept(prefix.length) / kPagePositions;
  SLIP_CHECK(!full_.used || static_cast<int64_t>(prefix.full.size()) == end);
  SLIP_CHECK(!sliding_.used || static_cast<int64_t>(prefix.sliding.size()) >= end - first_kept);
  // All are referred to before the first page is asked for: whoever makes room for it must not take these.
  put_prefix(full_, prefix.full, prefix.length);
  put_prefix(sliding_, prefix.sliding, prefix.length);
  const bool whole = prefix.length % kPagePositions == 0;
  bool enough = false;
  try {
    enough = whole || (own_last_page(full_) && own_last_page(sliding_));
  } catch (...) {
    release();
    throw;
  }
  if (!enough) {
    release();
    return false;
  }
  length_ = prefix.length;
  shared_ = prefix.length / kPagePositions * kPagePositions;
  grown_ = end * kPagePositions;
  drop_before(sliding_, first_kept);
  return true;
}

void Cache::reserve(int64_t positions) {
  const bool there =
      extend(full_, pages_for(positions)) &&
      extend(sliding_, pages_for(std::min<int64_t>(positions, int64_t{length_} + layout_.max_step_rows())));
  SLIP_CHECK(there);
  const int64_t sliding = end_page(LayerKind::kSliding), full = end_page(LayerKind::kFull);
  const int64_t end = !sliding_.used ? full : !full_.used ? sliding : std::min(full, sliding);
  grown_ = std::max(grown_, end * kPagePositions);
}

std::vector<PositionRange> Cache::resident(LayerKind kind) const {
  const int64_t first = table(kind).first * kPagePositions;
  if (first >= length_) return {};
  return {{first, length_}};
}

Cache::DevicePages Cache::device_pages(LayerKind kind) const {
  SLIP_CHECK(pool_.side() == MemorySide::kDevice);
  const Table& from = table(kind);
  if (!from.used) return {};
  const int64_t kept = kind == LayerKind::kSliding ? layout_.first_kept(length_) / kPagePositions : 0;
  const int64_t first = std::max(from.first, kept), end = pages_for(int64_t{length_} + staged_);
  SLIP_CHECK(end <= static_cast<int64_t>(from.addresses.size()));
  return {.first = first,
          .pages = std::span(from.addresses)
                       .subspan(static_cast<size_t>(first),
                                static_cast<size_t>(std::max<int64_t>(0, end - first)))};
}

}  // namespace slip::kv
