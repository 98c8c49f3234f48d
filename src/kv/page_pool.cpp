#include "kv/page_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/buffer.h"
#include "base/check.h"
#include "base/error.h"

namespace slip::kv {
namespace {

constexpr size_t kAlignment = 256;      // of slabs and their sizes
constexpr size_t kWasteShare = 32;      // a 32nd of a slab may be wasted without looking further
constexpr size_t kMultiplesTried = 16;  // of the largest page
constexpr int kNotANumber = 0xff;       // all bytes of a poisoned page: NaN as bf16 and as float

size_t rounded_up(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

bool only_held(const Page& page) {
  return page.held() > 0 && page.held() == page.references();
}

std::byte* pointer(DevicePage address) {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address));
}

}  // namespace

PageMemory host_memory() {
  return {.allocate = [](size_t bytes, const char* what) -> std::shared_ptr<std::byte> {
            auto buffer = std::make_shared<Buffer>(bytes, what);
            return {buffer, buffer->data()};
          },
          .copy = [](std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); },
          .fill = [](std::byte* to, int value, size_t bytes) { std::memset(to, value, bytes); },
          .side = MemorySide::kHost};
}

PagePool::PagePool(PageMemory memory, size_t least_slab)
    : memory_(std::move(memory)), least_slab_(least_slab) {}

PageClass PagePool::add_class(size_t page_bytes) {
  if (slabs_in_use_ == 0) {  // the slabs may be of another size from now on
    for (int slab = 0; slab < slab_count(); ++slab) {
      if (slabs_[static_cast<size_t>(slab)]->memory != nullptr) drop_memory(slab);
    }
    slab_bytes_ = 0;
  }
  SLIP_CHECK(slab_bytes_ == 0 || page_bytes <= slab_bytes_);
  classes_.push_back({.page_bytes = page_bytes, .by_live = {}});
  if (slab_bytes_ > 0 && page_bytes > 0)
    classes_.back().by_live.assign(static_cast<size_t>(per_slab(classes_.back())) + 1, -1);
  return {static_cast<int>(classes_.size()) - 1};
}

size_t PagePool::best_slab_bytes() const {
  size_t largest = 0;
  for (const Class& one : classes_) largest = std::max(largest, one.page_bytes);
  if (largest == 0) return 0;
  largest = rounded_up(largest, kAlignment);
  const size_t first = rounded_up(std::max(least_slab_, largest), largest);
  size_t best = first;
  double least_waste = 1;
  for (size_t i = 0; i < kMultiplesTried; ++i) {
    const size_t bytes = first + i * largest;
    size_t wasted = 0;
    for (const Class& one : classes_) {
      if (one.page_bytes > 0) wasted = std::max(wasted, bytes % one.page_bytes);
    }
    if (wasted * kWasteShare <= bytes) return bytes;
    const double share = static_cast<double>(wasted) / static_cast<double>(bytes);
    if (share < least_waste) {
      least_waste = share;
      best = bytes;
    }
  }
  return best;
}

size_t PagePool::slab_bytes() const {
  return slab_bytes_ > 0 ? slab_bytes_ : best_slab_bytes();
}

void PagePool::fix_slabs() {
  if (slab_bytes_ > 0) return;
  slab_bytes_ = best_slab_bytes();
  SLIP_CHECK(slab_bytes_ > 0);
  for (Class& one : classes_) {
    if (one.page_bytes > 0) one.by_live.assign(static_cast<size_t>(per_slab(one)) + 1, -1);
    one.fullest = 0;
  }
}

Page* PagePool::allocate(PageClass which) {
  SLIP_CHECK(which.index >= 0 && at(which).page_bytes > 0);
  fix_slabs();
  Page* page = take(which);
  while (page == nullptr && reclaim != nullptr && reclaim(which)) page = take(which);
  if (page != nullptr && poison_) memory_.fill(pointer(page->address_), kNotANumber, at(which).page_bytes);
  return page;
}

Page* PagePool::take(PageClass which) {
  Class& one = at(which);
  int index = slab_with_room(one);
  if (index < 0) {
    index = empty_slab();
    if (index < 0) return nullptr;
    Slab& slab = *slabs_[static_cast<size_t>(index)];
    unlink(index);
    slab.class_index = which.index;
    slab.untouched = 0;
    slab.free = -1;
    if (slab.pages.size() < static_cast<size_t>(per_slab(one)))
      slab.pages.resize(static_cast<size_t>(per_slab(one)));
    ++one.slabs;
    ++slabs_in_use_;
  } else {
    unlink(index);
  }
  Slab& slab = *slabs_[static_cast<size_t>(index)];
  const int place = slab.free >= 0 ? slab.free : slab.untouched++;
  Page& page = slab.pages[static_cast<size_t>(place)];
  if (slab.free >= 0) slab.free = page.next_free_;
  page.address_ = static_cast<DevicePage>(
      reinterpret_cast<uintptr_t>(slab.memory.get() + static_cast<size_t>(place) * one.page_bytes));
  page.references_ = 1;
  page.held_ = 0;
  page.slab_ = index;
  page.place_ = place;
  page.class_ = which.index;
  ++slab.live;
  link(index);
  ++one.live;
  live_bytes_ += one.page_bytes;
  return &page;
}

int PagePool::slab_with_room(Class& from) {
  while (from.fullest > 0 && from.by_live[static_cast<size_t>(from.fullest)] < 0) --from.fullest;
  return from.fullest > 0 ? from.by_live[static_cast<size_t>(from.fullest)] : -1;
}

int PagePool::empty_slab() {
  if (empty_ < 0 && !new_slab()) return -1;
  return empty_;
}

/// One more slab with memory, in the list of empty ones.
bool PagePool::new_slab() {
  if (backed_ >= most_slabs()) return false;
  std::shared_ptr<std::byte> memory;
  try {
    memory = memory_.allocate(slab_bytes_, "the KV caches");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kOutOfMemory || backed_ == 0) throw;
    refused_ = true;
    return false;
  }
  int index = dropped_;
  if (index >= 0) {
    dropped_ = slabs_[static_cast<size_t>(index)]->after;
  } else {
    index = slab_count();
    slabs_.push_back(std::make_unique<Slab>());
  }
  slabs_[static_cast<size_t>(index)]->memory = std::move(memory);
  ++backed_;
  link(index);
  return true;
}

void PagePool::drop_memory(int index) {
  unlink(index);
  Slab& slab = *slabs_[static_cast<size_t>(index)];
  slab.memory.reset();
  slab.before = -1;
  slab.after = std::exchange(dropped_, index);
  --backed_;
}

void PagePool::ref(Page* page) {
  count(page, 1, 0);
}
void PagePool::unref(Page* page) {
  count(page, -1, 0);
}
void PagePool::hold(Page* page) {
  count(page, 1, 1);
}
void PagePool::let_go(Page* page) {
  count(page, -1, -1);
}

void PagePool::count(Page* page, int references, int held) {
  SLIP_CHECK(page->references_ > 0);
  const bool before = only_held(*page);
  page->references_ += references;
  page->held_ += held;
  SLIP_CHECK(page->held_ >= 0 && page->references_ >= page->held_);
  const bool after = only_held(*page);
  if (before != after) {
    Slab& slab = *slabs_[static_cast<size_t>(page->slab_)];
    const size_t bytes = at(page->page_class()).page_bytes;
    slab.held_only += after ? 1 : -1;
    held_only_bytes_ = after ? held_only_bytes_ + bytes : held_only_bytes_ - bytes;
  }
  if (page->references_ == 0) free_page(page);
}

void PagePool::free_page(Page* page) {
  const int index = page->slab_;
  Class& one = at(page->page_class());
  Slab& slab = *slabs_[static_cast<size_t>(index)];
  unlink(index);
  page->next_free_ = std::exchange(slab.free, page->place_);
  --slab.live;
  --one.live;
  live_bytes_ -= one.page_bytes;
  if (slab.live == 0) {
    slab.class_index = -1;
    --one.slabs;
    --slabs_in_use_;
  }
  link(index);
  if (slab.live == 0 && backed_ > most_slabs()) drop_memory(index);
}

void PagePool::copy(Page* to, const Page* from) {
  SLIP_CHECK(to->class_ == from->class_);
  memory_.copy(pointer(to->address_), pointer(from->address_), at(from->page_class()).page_bytes);
}

/// Slabs that are full are in no list.
bool PagePool::is_listed(const Slab& slab) const {
  return slab.class_index < 0 || slab.live < per_slab(classes_[static_cast<size_t>(slab.class_index)]);
}
int& PagePool::list_of(const Slab& slab) {
  if (slab.class_index < 0) return empty_;
  return classes_[static_cast<size_t>(slab.class_index)].by_live[static_cast<size_t>(slab.live)];
}

void PagePool::link(int index) {
  Slab& slab = *slabs_[static_cast<size_t>(index)];
  slab.before = slab.after = -1;
  if (!is_listed(slab)) return;
  int& first = list_of(slab);
  slab.after = first;
  if (first >= 0) slabs_[static_cast<size_t>(first)]->before = index;
  first = index;
  if (slab.class_index >= 0) {
    Class& one = classes_[static_cast<size_t>(slab.class_index)];
    one.fullest = std::max(one.fullest, slab.live);
  }
}

void PagePool::unlink(int index) {
  Slab& slab = *slabs_[static_cast<size_t>(index)];
  if (!is_listed(slab)) return;
  if (slab.before >= 0) {
    slabs_[static_cast<size_t>(slab.before)]->after = slab.after;
  } else {
    list_of(slab) = slab.after;
  }
  if (slab.after >= 0) slabs_[static_cast<size_t>(slab.after)]->before = slab.before;
}

void PagePool::set_budget(size_t bytes) {
  budget_ = bytes;
  refused_ = false;
  while (slab_bytes_ > 0 && empty_ >= 0 && backed_ > most_slabs()) drop_memory(empty_);
}

size_t PagePool::most_slabs() const {
  if (refused_) return backed_;
  const size_t bytes = slab_bytes();
  return bytes == 0 ? 0 : budget_ / bytes;
}

size_t PagePool::bytes_needed(const std::vector<size_t>& counts) const {
  SLIP_CHECK(counts.size() <= classes_.size());
  const size_t bytes = slab_bytes();
  size_t slabs = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0 || classes_[i].page_bytes == 0) continue;
    const size_t each = bytes / classes_[i].page_bytes;
    slabs += (counts[i] + each - 1) / each;
  }
  return slabs * bytes;
}

size_t PagePool::free_pages(PageClass which) const {
  const Class& one = at(which);
  if (one.page_bytes == 0) return 0;
  const size_t each = slab_bytes() / one.page_bytes;
  const size_t slabs = std::max(most_slabs(), backed_) - slabs_in_use_;
  const size_t partial = one.slabs * each - one.live;
  if (slabs > (kUnlimited - partial) / each) return kUnlimited;
  return partial + slabs * each;
}

}  // namespace slip::kv
