// PagePool: the pages of all sequences of a model, of every kind of page: full and sliding layers, of the target and
// of draft networks that keep a cache.
//
// One byte budget is cut into equal slabs. A slab serves one class of pages while a page of it lives; empty, it serves
// whichever class asks next. So bytes move between kinds of pages whose sizes differ forty times, and none are lost to
// a split made beforehand. Slabs are taken from the memory as they are needed, and kept.
//
// A slab is a multiple of the largest page, at least a MiB: the smallest multiple of which no class wastes more than a
// 32nd at the end, or else the least wasteful of the first sixteen. In the published models a slab
// is one or two pages of sliding layers, without waste.
//
// Pages are reference counted. References of a prefix cache are counted apart (hold, let_go), so that the pool knows
// which pages and slabs nobody else needs. Used from one thread, the engine's. Cost: allocate, ref and unref are a few
// dozen instructions; only a slab that was never used before takes host memory, for the records of its pages.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kv/page_memory.h"

namespace slip::kv {

struct PageClass {
  int index = -1;
  bool operator==(const PageClass&) const = default;
};

/// A page that somebody refers to. Owned by its pool.
class Page {
 public:
  PageClass page_class() const { return {class_}; }
  int references() const { return references_; }
  /// Of these, references of a prefix cache. If they are all, dropping them frees the page.
  int held() const { return held_; }
  /// The slab it lies in, 0, 1, ...
  int slab() const { return slab_; }
  /// Its place among the pages of that slab.
  int place() const { return place_; }

 private:
  friend class PagePool;
  friend class Cache;
  DevicePage address_ = {};
  int references_ = 0, held_ = 0;
  int slab_ = -1, place_ = 0, class_ = -1;
  int next_free_ = -1;  // place of the next free page of the slab
};

class PagePool {
 public:
  static constexpr size_t kUnlimited = ~size_t{0};
  static constexpr size_t kLeastSlab = size_t{1} << 20;

  /// `least_slab`: tests with small pages and budgets want slabs that are small as well.
  explicit PagePool(PageMemory memory = host_memory(), size_t least_slab = kLeastSlab);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  /// A kind of page; of 0 bytes for layers that a model has not, of which no page can be asked for. All classes are
  /// there before the first page is, or between times without pages; later ones must fit the slabs.
  PageClass add_class(size_t page_bytes);
  size_t page_bytes(PageClass which) const { return at(which).page_bytes; }

  /// A page with one reference, its contents whatever they were; null if the budget is used up and nothing can be
  /// reclaimed. Throws Error(kOutOfMemory) if the memory refuses the very first slab.
  Page* allocate(PageClass which);
  void ref(Page* page);
  void unref(Page* page);
  /// References of a prefix cache.
  void hold(Page* page);
  void let_go(Page* page);
  /// Of the same class.
  void copy(Page* to, const Page* from);

  /// Asked for a page of the class when none is free: drops references that nobody needs, at least one page's, and is
  /// asked again while there is still none; or says no.
  std::function<bool(PageClass)> reclaim;

  void set_budget(size_t bytes);
  size_t budget() const { return budget_; }
  /// Slabs that hold a page, in bytes, and the pages themselves.
  size_t bytes_in_use() const { return slabs_in_use_ * slab_bytes_; }
  size_t bytes_live() const { return live_bytes_; }
  /// Of the live pages' bytes, those that only a prefix cache refers to.
  size_t bytes_held_only() const { return held_only_bytes_; }
  size_t pages_in_use(PageClass which) const { return at(which).live; }
  /// 0 before the first page where no class has bytes.
  size_t slab_bytes() const;
  /// Slabs there may be at once, as far as the memory goes.
  size_t most_slabs() const;
  /// Whole slabs for so many pages of every class (by index), in bytes: what a pool of its own would need.
  size_t bytes_needed(const std::vector<size_t>& counts) const;
  /// Pages of the class that can be had now without reclaiming.
  size_t free_pages(PageClass which) const;

  /// What a prefix cache asks before it gives up a slab: its pages, and those of them that only it refers to.
  int slab_count() const { return static_cast<int>(slabs_.size()); }
  PageClass slab_class(int slab) const { return {slabs_[static_cast<size_t>(slab)]->class_index}; }
  int slab_live(int slab) const { return slabs_[static_cast<size_t>(slab)]->live; }
  int slab_held_only(int slab) const { return slabs_[static_cast<size_t>(slab)]->held_only; }

  MemorySide side() const { return memory_.side; }
  /// For tests: fills every page that is handed out with a pattern that is no number in any storage.
  void poison_new_pages(bool on) { poison_ = on; }

 private:
  struct Class {
    size_t page_bytes = 0;
    size_t live = 0, slabs = 0;
    int fullest = 0;                // no slab with room has more live pages
    std::vector<int> by_live = {};  // first of the list of slabs with so many live pages; -1 = none
  };
  struct Slab {
    std::shared_ptr<std::byte> memory;
    std::vector<Page> pages;
    int class_index = -1;  // -1 = empty
    int live = 0, held_only = 0;
    int untouched = 0;            // pages from here on have not been used since the slab got its class
    int free = -1;                // place of the first free page before that
    int before = -1, after = -1;  // in the list of its class and count, or of the empty ones
  };

  const Class& at(PageClass which) const { return classes_[static_cast<size_t>(which.index)]; }
  Class& at(PageClass which) { return classes_[static_cast<size_t>(which.index)]; }
  int per_slab(const Class& one) const { return static_cast<int>(slab_bytes_ / one.page_bytes); }
  size_t best_slab_bytes() const;
  void fix_slabs();
  Page* take(PageClass which);
  int slab_with_room(Class& from);
  int empty_slab();
  bool new_slab();
  bool is_listed(const Slab& slab) const;
  int& list_of(const Slab& slab);
  void link(int slab);
  void unlink(int slab);
  void drop_memory(int slab);
  void count(Page* page, int references, int held);
  void free_page(Page* page);

  const PageMemory memory_;
  const size_t least_slab_;
  std::vector<Class> classes_;
  size_t slab_bytes_ = 0;  // 0 = not fixed yet
  size_t budget_ = kUnlimited;
  bool refused_ = false;  // the memory has no more slabs
  bool poison_ = false;
  std::vector<std::unique_ptr<Slab>> slabs_;
  int empty_ = -1;     // list of empty slabs that have memory
  int dropped_ = -1;   // and of those that have none
  size_t backed_ = 0;  // slabs with memory
  size_t slabs_in_use_ = 0, live_bytes_ = 0, held_only_bytes_ = 0;
};

}  // namespace slip::kv
