#include "kv/page_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/noise.h"
#include "kv/cache.h"
#include "kv/no_memory.h"
#include "synth/shapes.h"

namespace slip::kv {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// Memory that counts what it hands out and refuses beyond a limit.
struct Counted {
  PageMemory memory() {
    PageMemory result = host_memory();
    result.allocate = [this](size_t bytes, const char* what) -> std::shared_ptr<std::byte> {
      if (slabs >= most) fail(ErrorKind::kOutOfMemory, "{} do not fit", what);
      ++slabs;
      std::shared_ptr<std::byte> inner = host_memory().allocate(bytes, what);
      return {inner.get(), [this, inner](std::byte*) { --slabs; }};
    };
    return result;
  }
  int slabs = 0, most = 1 << 30;
};

TEST(PagePool, a_slab_serves_one_class_while_a_page_of_it_lives) {
  PagePool pool(host_memory(), 1);
  const PageClass small = pool.add_class(1024), large = pool.add_class(4096);
  EXPECT_EQ(pool.slab_bytes(), 4096u);
  pool.set_budget(2 * 4096);
  Page* one = pool.allocate(small);
  Page* two = pool.allocate(large);
  EXPECT_EQ(pool.bytes_in_use(), 2 * 4096u);
  EXPECT_EQ(pool.bytes_live(), 1024u + 4096u);
  EXPECT_EQ(pool.allocate(large), nullptr);
  EXPECT_EQ(pool.free_pages(small), 3u);
  EXPECT_EQ(pool.free_pages(large), 0u);
  pool.unref(one);
  EXPECT_EQ(pool.bytes_in_use(), 4096u);
  Page* three = pool.allocate(large);
  EXPECT_NE(three, nullptr);
  EXPECT_EQ(pool.allocate(small), nullptr);
  EXPECT_EQ(pool.pages_in_use(large), 2u);
  pool.unref(two);
  pool.unref(three);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_EQ(pool.free_pages(small), 8u);
}

TEST(PagePool, takes_pages_of_the_fullest_slab_first) {
  PagePool pool(host_memory(), 1);
  const PageClass kind = pool.add_class(1024);
  pool.add_class(4096);
  std::vector<Page*> pages;
  for (int i = 0; i < 12; ++i) pages.push_back(pool.allocate(kind));
  // Of three full slabs, the first keeps one page, the second three, the third two.
  const int keep[] = {1, 3, 2};
  for (int slab = 0; slab < 3; ++slab) {
    for (int i = keep[slab]; i < 4; ++i) pool.unref(pages[static_cast<size_t>(slab * 4 + i)]);
  }
  EXPECT_EQ(pool.allocate(kind)->slab(), pages[4]->slab());
  EXPECT_EQ(pool.allocate(kind)->slab(), pages[8]->slab());
  EXPECT_EQ(pool.allocate(kind)->slab(), pages[8]->slab());
  EXPECT_EQ(pool.allocate(kind)->slab(), pages[0]->slab());
  EXPECT_EQ(pool.bytes_in_use(), 3 * 4096u);
}

TEST(PagePool, a_slab_wastes_little_of_any_page) {
  for (const char* shape : {"e2b", "e4b", "12b", "26b-a4b", "31b"}) {
    PagePool pool;
    const Layout layout(synth::shape_config(shape), Storage::kBf16, 512);
    add_classes(pool, layout);
    EXPECT_LE(pool.slab_bytes(), 2 * layout.sliding_page_bytes()) << shape;
    EXPECT_EQ(pool.slab_bytes() % layout.sliding_page_bytes(), 0u) << shape;
    EXPECT_EQ(pool.slab_bytes() % layout.full_page_bytes(), 0u) << shape;
  }
  // Beside a draft network whose pages fit badly, several pages of the largest kind make a slab.
  PagePool odd;
  for (const size_t bytes : {size_t{3} * kMiB, size_t{1} * kMiB, 5 * kMiB / 2}) odd.add_class(bytes);
  EXPECT_EQ(odd.slab_bytes(), 15 * kMiB);
  PagePool tiny;
  tiny.add_class(768);
  EXPECT_GE(tiny.slab_bytes(), kMiB);
  EXPECT_EQ(tiny.slab_bytes() % 768, 0u);
}

TEST(PagePool, says_what_pages_need_in_whole_slabs) {
  PagePool pool(host_memory(), 1);
  pool.add_class(1024);
  pool.add_class(4096);
  pool.add_class(0);
  EXPECT_EQ(pool.bytes_needed({0, 0, 0}), 0u);
  EXPECT_EQ(pool.bytes_needed({1, 0, 0}), 4096u);
  EXPECT_EQ(pool.bytes_needed({5, 2, 7}), 4 * 4096u);
}

TEST(PagePool, asks_for_pages_to_be_reclaimed_until_one_is_free) {
  PagePool pool(host_memory(), 1);
  const PageClass kind = pool.add_class(1024);
  pool.set_budget(2 * 1024);
  std::vector<Page*> kept = {pool.allocate(kind), pool.allocate(kind)};
  int asked = 0;
  pool.reclaim = [&](PageClass wanted) {
    EXPECT_EQ(wanted, kind);
    ++asked;
    if (asked == 1) return true;  // something was dropped, yet no page came free of it
    if (kept.empty()) return false;
    pool.unref(kept.back());
    kept.pop_back();
    return true;
  };
  EXPECT_NE(pool.allocate(kind), nullptr);
  EXPECT_EQ(asked, 2);
  EXPECT_NE(pool.allocate(kind), nullptr);
  EXPECT_EQ(pool.allocate(kind), nullptr);
  EXPECT_EQ(asked, 4);
}

TEST(PagePool, remembers_that_the_memory_has_no_more_slabs) {
  Counted counted;
  counted.most = 2;
  PagePool pool(counted.memory(), 1);
  const PageClass kind = pool.add_class(1024);
  Page* first = pool.allocate(kind);
  Page* second = pool.allocate(kind);
  EXPECT_EQ(pool.allocate(kind), nullptr);
  EXPECT_EQ(pool.free_pages(kind), 0u);
  counted.most = 3;
  EXPECT_EQ(pool.allocate(kind), nullptr);
  pool.set_budget(PagePool::kUnlimited);
  EXPECT_NE(pool.allocate(kind), nullptr);
  pool.unref(first);
  pool.unref(second);
}

TEST(PagePool, fails_with_the_memorys_sentence_where_not_even_one_slab_is_there) {
  Counted counted;
  counted.most = 0;
  PagePool pool(counted.memory(), 1);
  const PageClass kind = pool.add_class(1024);
  try {
    pool.allocate(kind);
    FAIL() << "there was memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
    EXPECT_STREQ(error.what(), "the KV caches do not fit");
  }
}

TEST(PagePool, a_smaller_budget_gives_memory_back_as_slabs_become_empty) {
  Counted counted;
  PagePool pool(counted.memory(), 1);
  const PageClass kind = pool.add_class(1024);
  std::vector<Page*> pages;
  for (int i = 0; i < 6; ++i) pages.push_back(pool.allocate(kind));
  pool.unref(pages[5]);
  EXPECT_EQ(counted.slabs, 6);
  pool.set_budget(3 * 1024);
  EXPECT_EQ(counted.slabs, 5);
  EXPECT_EQ(pool.allocate(kind), nullptr);
  for (int i = 0; i < 5; ++i) pool.unref(pages[static_cast<size_t>(i)]);
  EXPECT_EQ(counted.slabs, 3);
  pool.set_budget(5 * 1024);
  for (int i = 0; i < 5; ++i) EXPECT_NE(pool.allocate(kind), nullptr);
  EXPECT_EQ(pool.allocate(kind), nullptr);
}

TEST(PagePool, counts_pages_that_only_a_prefix_cache_refers_to) {
  PagePool pool(host_memory(), 1);
  const PageClass kind = pool.add_class(1024);
  pool.add_class(4096);
  Page* page = pool.allocate(kind);
  pool.hold(page);
  pool.hold(page);
  EXPECT_EQ(pool.bytes_held_only(), 0u);
  pool.unref(page);
  EXPECT_EQ(pool.bytes_held_only(), 1024u);
  EXPECT_EQ(pool.slab_held_only(page->slab()), 1);
  pool.ref(page);
  EXPECT_EQ(pool.bytes_held_only(), 0u);
  pool.unref(page);
  pool.let_go(page);
  EXPECT_EQ(pool.bytes_held_only(), 1024u);
  pool.let_go(page);
  EXPECT_EQ(pool.bytes_held_only(), 0u);
  EXPECT_EQ(pool.bytes_live(), 0u);
}

TEST(PagePool, classes_may_come_later_while_no_page_lives) {
  Counted counted;
  PagePool pool(counted.memory(), 1);
  const PageClass first = pool.add_class(1024);
  pool.unref(pool.allocate(first));
  EXPECT_EQ(counted.slabs, 1);
  const PageClass second = pool.add_class(3000);
  EXPECT_EQ(counted.slabs, 0);
  EXPECT_GE(pool.slab_bytes(), 3000u);
  Page* page = pool.allocate(second);
  const PageClass third = pool.add_class(512);
  Page* other = pool.allocate(third);
  EXPECT_NE(other, nullptr);
  pool.unref(page);
  pool.unref(other);
}

/// Random allocation of three kinds within a budget: pages never overlap, counts agree, and a class is refused only
/// when there is no room for it.
TEST(PagePool, never_hands_out_bytes_twice) {
  PagePool pool(host_memory(), 1);
  const size_t sizes[] = {256, 768, 2048};
  PageClass classes[3];
  for (size_t i = 0; i < 3; ++i) classes[i] = pool.add_class(sizes[i]);
  pool.set_budget(7 * pool.slab_bytes());
  std::vector<Page*> live;
  uint64_t draws = 0;
  const auto draw = [&](size_t limit) { return static_cast<size_t>(keyed_bits(5, draws++) % limit); };
  for (int i = 0; i < 20000; ++i) {
    const size_t most = i / 1000 % 2 == 0 ? 3 : 1;  // times of mixed pages, times of one kind
    if (draw(2) == 0) {
      const PageClass kind = classes[draw(most)];
      const bool room = pool.free_pages(kind) > 0;
      Page* page = pool.allocate(kind);
      ASSERT_EQ(page != nullptr, room);
      if (page != nullptr) live.push_back(page);
    } else if (!live.empty()) {
      const size_t which = draw(live.size());
      pool.unref(live[which]);
      live[which] = live.back();
      live.pop_back();
    }
    std::set<std::pair<int, int>> places;
    std::map<int, int> kinds;
    size_t bytes = 0;
    for (const Page* page : live) {
      ASSERT_TRUE(places.insert({page->slab(), page->place()}).second);
      const auto [at, is_new] = kinds.insert({page->slab(), page->page_class().index});
      ASSERT_EQ(at->second, page->page_class().index);
      bytes += pool.page_bytes(page->page_class());
    }
    ASSERT_EQ(pool.bytes_live(), bytes);
    ASSERT_EQ(pool.bytes_in_use(), kinds.size() * pool.slab_bytes());
    ASSERT_LE(pool.bytes_in_use(), pool.budget());
  }
}

/// Few long sequences, then many short ones, then long ones again, of each published model.
TEST(PagePool, bytes_move_between_long_and_short_sequences) {
  for (const char* shape : {"e2b", "e4b", "12b", "26b-a4b", "31b"}) {
    const Layout layout(synth::shape_config(shape), Storage::kBf16, 512);
    PagePool pool(no_memory());
    const PageClasses classes = add_classes(pool, layout);
    const size_t budget = 400 * layout.sliding_page_bytes();
    pool.set_budget(budget);
    std::vector<std::unique_ptr<Cache>> caches;
    // Sequences of a length, token by token in steps of 256, until one is refused; the bytes they hold.
    const auto fill = [&](int length) {
      caches.clear();
      for (bool refused = false; !refused;) {
        caches.push_back(std::make_unique<Cache>(layout, pool, classes));
        Cache& cache = *caches.back();
        while (!refused && cache.length() < length) {
          const int rows = std::min(256, length - cache.length());
          if (!cache.grow(rows)) {
            refused = true;
          } else {
            cache.stage(rows);
            cache.commit(rows);
          }
        }
      }
      return pool.bytes_live();
    };
    // In turns, so that slabs of full pages are left scattered by those that end.
    const size_t few = fill(30000);
    EXPECT_GE(few, budget * 9 / 10) << shape;
    const size_t many = fill(300);
    EXPECT_GE(many, budget * 9 / 10) << shape;
    for (size_t i = 0; i < caches.size(); i += 2) caches[i].reset();
    for (size_t i = 1; i < caches.size(); i += 2) caches[i].reset();
    EXPECT_EQ(pool.bytes_in_use(), 0u);
    EXPECT_GE(fill(30000), few * 95 / 100) << shape;
    EXPECT_GE(fill(300), many * 95 / 100) << shape;
  }
}

TEST(PagePool, counts_agree_after_10000_random_calls_of_many_caches) {
  model::Config config = synth::shape_config("tiny-dense");
  config.window = 300;
  const Layout layout(config, Storage::kF32, 200);
  PagePool pool(host_memory(), 1);
  const PageClasses classes = add_classes(pool, layout);
  pool.set_budget(25 * pool.slab_bytes());
  std::vector<std::unique_ptr<Cache>> caches;
  for (int i = 0; i < 12; ++i) caches.push_back(std::make_unique<Cache>(layout, pool, classes));
  uint64_t draws = 0;
  const auto draw = [&](int limit) {
    return static_cast<int>(keyed_bits(9, draws++) % static_cast<uint64_t>(limit));
  };
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    Cache& cache = *caches[static_cast<size_t>(draw(12))];
    const int rows = 1 + draw(200);
    switch (draw(8)) {
      case 0: cache.release(); break;
      case 1: {
        const auto first = static_cast<int>(cache.first_page(model::LayerKind::kSliding)) * kPagePositions;
        const int least = first == 0 ? 0 : std::min(cache.length(), first + config.window - 1);
        cache.truncate(least + draw(cache.length() - least + 1));
        break;
      }
      case 2: cache.grow(rows); break;
      default:
        if (cache.grow(rows)) {
          cache.stage(rows);
          cache.commit(draw(3) == 0 ? draw(rows + 1) : rows);
        } else {
          ++refused;
        }
    }
    size_t full = 0, sliding = 0;
    for (const auto& one : caches) {
      full += static_cast<size_t>(one->end_page(model::LayerKind::kFull));
      sliding += static_cast<size_t>(one->end_page(model::LayerKind::kSliding) -
                                     one->first_page(model::LayerKind::kSliding));
    }
    ASSERT_EQ(pool.pages_in_use(classes.full), full);
    ASSERT_EQ(pool.pages_in_use(classes.sliding), sliding);
  }
  EXPECT_GT(refused, 100);
  caches.clear();
  EXPECT_EQ(pool.bytes_live(), 0u);
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace slip::kv
