// Cache: the KV memory of one sequence, addressed by absolute position: a table of pages for full layers, from
// position 0 on, and one for sliding layers, from the first page that a later row still sees.
//
// A step stages n positions after length() and writes them; commit(k) keeps the first k of them. The rest need no
// undoing: they lie beyond length() and the next step overwrites them, so rejecting a draft costs nothing. What a
// commit pushes out of every later row's window goes back to the pool at once.
//
// Positions below length() are never written again, so pages may be shared: the last, partly filled page of another
// sequence is copied (adopt), the ones before it are referred to.
//
// grow() is the only call that takes pages; a caller that may be refused calls it before stage(). Cost: grow and
// commit touch a table once per page, nothing allocates host memory below Config::max_positions.
#pragma once

#include <memory>
#include <span>
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

/// The kinds of page of one network's caches.
struct PageClasses {
  PageClass full, sliding;
};
PageClasses add_classes(PagePool& pool, const Layout& layout);

/// Pages of another sequence that a cache begins with. Both spans end with the page of position length - 1; empty for
/// a kind that the layout has not.
struct Prefix {
  int length = 0;
  std::span<Page* const> full;     // from position 0 on
  std::span<Page* const> sliding;  // at least from layout.first_kept(length) on
};

class Cache {
 public:
  /// `layout` and `pool` must outlive the cache.
  Cache(const Layout& layout, PagePool& pool, const PageClasses& classes);
  ~Cache() { release(); }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  int length() const { return length_; }
  int staged() const { return staged_; }

  /// Takes the pages of positions length() .. length() + rows - 1, as far as they are not there. False, and nothing
  /// has changed, if the pool has not enough.
  bool grow(int rows);
  /// Announces rows at positions length() .. length() + rows - 1. Rows staged before and not committed are
  /// forgotten. Grows by itself; that the pool had the pages is then the caller's promise.
  void stage(int rows);
  /// Keeps the first `rows` staged positions.
  void commit(int rows);
  /// From now on commit() leaves sliding pages where they are, and trim() gives them back: a prefix cache wants to see
  /// those of a long step first.
  void keep_until_trimmed() { trims_itself_ = false; }
  void trim();
  /// Forgets everything from `length` on, and gives back its pages. The window before `length` must be there, and
  /// nobody else may refer to what is forgotten.
  void truncate(int length);
  /// Gives everything back: an empty cache.
  void release();
  /// Of an empty cache: begins with the first positions of another. False, and nothing has changed, if the pool has
  /// no page for the copy of a last page that is not full.
  bool adopt(const Prefix& prefix);

  /// For tests and measurements, which know their lengths: takes the pages of [0, positions) now, those of sliding
  /// layers as far as one step could want them.
  void reserve(int64_t positions);

  /// Positions of which this cache still holds K and V, in layers of that kind: ascending, apart from each other.
  std::vector<PositionRange> resident(model::LayerKind kind) const;
  /// Pages of the kind: numbers [first_page, end_page), counted from position 0.
  int64_t first_page(model::LayerKind kind) const { return table(kind).first; }
  int64_t end_page(model::LayerKind kind) const { return static_cast<int64_t>(table(kind).pages.size()); }
  bool has_pages() const {
    return first_page(model::LayerKind::kFull) < end_page(model::LayerKind::kFull) ||
           first_page(model::LayerKind::kSliding) < end_page(model::LayerKind::kSliding);
  }
  Page* page(model::LayerKind kind, int64_t number) const {
    return table(kind).pages[static_cast<size_t>(number)];
  }
  /// Others refer to pages up to `position`, which therefore stay as they are.
  void share_up_to(int position);

  /// Where the pages lie that rows at length() - 1 and the staged ones read and write, for a device's backend: of a
  /// cache on a device.
  struct DevicePages {
    int64_t first = 0;  // number of the first of them
    std::span<const DevicePage> pages;
  };
  DevicePages device_pages(model::LayerKind kind) const;

  const Layout& layout() const { return layout_; }
  PagePool& pool() const { return pool_; }

 private:
  friend class HostPages;

  /// By page number; what lies before `first` has been given back.
  struct Table {
    PageClass page_class;
    std::vector<Page*> pages = {};
    std::vector<DevicePage> addresses = {};
    int64_t first = 0;
    bool used = false;  // the layout has layers of the kind
  };
  const Table& table(model::LayerKind kind) const {
    return kind == model::LayerKind::kSliding ? sliding_ : full_;
  }
  bool extend(Table& table, int64_t end);
  void put(Table& table, Page* page);
  void cut(Table& table, int64_t end);
  void drop_before(Table& table, int64_t first);
  void put_prefix(Table& table, std::span<Page* const> pages, int length);
  bool own_last_page(Table& table);

  const Layout& layout_;
  PagePool& pool_;
  Table full_, sliding_;
  int64_t grown_ = 0;  // pages of both kinds are there up to here
  int length_ = 0, staged_ = 0;
  int shared_ = 0;  // others may read positions up to here
  bool trims_itself_ = true;
};

}  // namespace slip::kv
