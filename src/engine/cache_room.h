// CacheRoom: what sequences need of the pool of pages, and what it has left. Numbers only; pages are taken by the
// caches themselves, and given back by whoever is preempted (round.h).
#pragma once

#include <cstddef>

#include "kv/cache.h"
#include "kv/layout.h"
#include "kv/page_pool.h"
#include "speculate/speculator.h"

namespace slip::engine {

class CacheRoom {
 public:
  /// All must outlive it; `speculator` may be null.
  CacheRoom(kv::PagePool& pool, const kv::Layout& layout, const speculate::Speculator* speculator);

  /// Bytes of the pages of a sequence of so many tokens, read in steps of so many rows.
  size_t needed(int64_t tokens, int step_rows = 1) const;
  /// Bytes of the pages that a cache holds already.
  static size_t held(const kv::Cache& cache);
  /// The most tokens of a sequence that has the pool for itself, up to `most`.
  int64_t fitting(int64_t most) const;
  /// Bytes that nobody uses, or only the prefix cache.
  size_t available() const;
  size_t budget() const { return pool_.budget(); }
  /// What a running sequence may want next: a page of every kind.
  size_t next_pages() const;

 private:
  kv::PagePool& pool_;
  const kv::Layout& layout_;
  const speculate::Speculator* speculator_;
};

}  // namespace slip::engine
