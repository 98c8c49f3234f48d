// Cache: the KV memory of one sequence, addressed by absolute position.
//
// A step stages n positions after length() and writes them; commit(k) keeps the first k of them. The rest
// need no undoing: their slots lie beyond length() and the next step overwrites them, so rejecting a draft
// costs nothing. The ring is wide enough that a staged row never overwrites a key that a row at length() or
// later can still see.
//
// reserve() is the only call that takes memory; it belongs to admission, not to a step.
#pragma once

#include <memory>
#include <vector>

#include "base/check.h"
#include "kv/layout.h"
#include "kv/page_pool.h"

namespace slip::kv {

/// Positions [first, end).
struct PositionRange {
  int64_t first = 0, end = 0;
  bool operator==(const PositionRange&) const = default;
};

class Cache {
 public:
  /// `layout` and `pool` must outlive the cache.
  Cache(const Layout& layout, PagePool& pool);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  /// Makes room for positions [0, positions).
  void reserve(int64_t positions);
  int64_t capacity() const { return static_cast<int64_t>(pages_.size()) * kPagePositions; }

  /// Positions of which this cache still holds K and V, in layers of that kind: ascending, apart from each other.
  std::vector<PositionRange> resident(model::LayerKind kind) const;

  int length() const { return length_; }
  int staged() const { return staged_; }
  /// Announces rows at positions length() .. length() + rows - 1. Rows staged before and not committed are
  /// forgotten.
  void stage(int rows);
  /// Keeps the first `rows` staged positions.
  void commit(int rows);
  /// Forgets everything from `length` on; a sliding layer can only go back as far as its ring still holds the
  /// window.
  void truncate(int length);

  /// The page of an owning layer that holds positions [page * kPagePositions, ...): [part][kv
  /// head][position][head dim].
  std::byte* page(int layer, int64_t page) const {
    const LayerLayout& at = layout_.layers()[static_cast<size_t>(layer)];
    std::byte* base =
        at.ring ? ring_.get() + static_cast<size_t>(page % layout_.ring_pages()) * layout_.ring_page_bytes()
                : pages_[static_cast<size_t>(page)];
    return base + at.page_offset;
  }
  /// [head dim] elements of one part at one position.
  std::byte* slot(int layer, int part, int kv_head, int64_t position) const;

  /// The memory of the ring, and the pages of full layers: for backends that keep tables of their own.
  std::byte* ring() const { return ring_.get(); }
  const std::vector<std::byte*>& pages() const { return pages_; }

  const Layout& layout() const { return layout_; }

 private:
  const Layout& layout_;
  PagePool& pool_;
  std::shared_ptr<std::byte> ring_;
  std::vector<std::byte*> pages_;
  int length_ = 0;
  int staged_ = 0;
  int64_t written_ = 0;  // one past the last position that was ever staged: rings have lost what lies behind
};

}  // namespace slip::kv
