#include "kv/cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/noise.h"
#include "kv/host_pages.h"
#include "synth/shapes.h"

namespace slip::kv {
namespace {

using model::LayerKind;

model::Config config_of(const char* shape) {
  return synth::shape_config(shape);
}

/// A pool of the smallest slabs, and what caches of one layout are made with.
struct Bench {
  explicit Bench(const char* shape = "tiny-dense", int window = 0, int most_rows = 16) {
    config = config_of(shape);
    if (window > 0) config.window = window;
    layout = std::make_unique<Layout>(config, Storage::kF32, most_rows);
    classes = add_classes(pool, *layout);
  }
  std::unique_ptr<Cache> cache() { return std::make_unique<Cache>(*layout, pool, classes); }
  size_t full() const { return pool.pages_in_use(classes.full); }
  size_t sliding() const { return pool.pages_in_use(classes.sliding); }

  model::Config config;
  std::unique_ptr<Layout> layout;
  PagePool pool{host_memory(), 1};
  PageClasses classes;
};

void step(Cache& cache, int rows, int kept) {
  cache.stage(rows);
  cache.commit(kept);
}
void write(Cache& cache, int length) {
  while (cache.length() < length) {
    const int rows = std::min(cache.layout().max_step_rows(), length - cache.length());
    step(cache, rows, rows);
  }
}

TEST(Layout, stores_one_vector_where_k_is_v_two_elsewhere_and_none_for_shared_layers) {
  const model::Config dense = config_of("31b"), small = config_of("e2b");
  const Layout dense_layout(dense, Storage::kBf16, 512), small_layout(small, Storage::kBf16, 512);
  EXPECT_EQ(dense_layout.layers()[5].parts, 1);
  EXPECT_EQ(dense_layout.layers()[0].parts, 2);
  EXPECT_TRUE(small_layout.layers()[14].owned);
  EXPECT_FALSE(small_layout.layers()[15].owned);
  EXPECT_FALSE(small_layout.layers()[34].owned);
}

TEST(Layout, has_the_byte_counts_of_the_published_models) {
  // Per token: E2B 6 KiB on full layers; 31B 80 KiB, halved by keeping one vector where K = V.
  const Layout small(config_of("e2b"), Storage::kBf16, 512), dense(config_of("31b"), Storage::kBf16, 512);
  EXPECT_EQ(small.full_page_bytes(), size_t{6144} * kPagePositions);
  EXPECT_EQ(small.sliding_page_bytes(), size_t{12} * 1024 * kPagePositions);
  EXPECT_EQ(dense.full_page_bytes(), size_t{40} * 1024 * kPagePositions);
  EXPECT_EQ(dense.sliding_page_bytes(), size_t{800} * 1024 * kPagePositions);
}

TEST(Layout, says_how_many_sliding_pages_a_sequence_holds_at_most) {
  for (const int window : {1, 100, 255, 256, 257, 512, 1024}) {
    for (const int rows : {1, 5, 16, 255, 256, 257}) {
      Bench bench("tiny-dense", window, 300);
      const auto cache = bench.cache();
      int64_t most = 0;
      int length = 0;
      // All offsets of a step in a page: rows of its own size, and now and then one.
      while (length < 9 * kPagePositions) {
        const int now = length % 7 == 0 ? 1 : rows;
        cache->stage(now);
        most = std::max(most, cache->end_page(LayerKind::kSliding) - cache->first_page(LayerKind::kSliding));
        cache->commit(now);
        length += now;
        ASSERT_LE(most, bench.layout->sliding_pages(length, rows)) << window << " " << rows << " " << length;
      }
      // The worst case is met by steps that begin anywhere; those of one row do.
      if (rows == 1) {
        EXPECT_EQ(most, bench.layout->sliding_pages(length, 1)) << window;
      }
    }
  }
}

TEST(Layout, a_window_of_1024_takes_five_pages_of_decoding) {
  const Layout dense(config_of("31b"), Storage::kBf16, 512);
  EXPECT_EQ(dense.sliding_pages(100000, 1), 5);
  EXPECT_EQ(dense.sliding_pages(1024, 1), 4);
  EXPECT_EQ(dense.bytes_at(1024), 4 * (dense.full_page_bytes() + dense.sliding_page_bytes()));
  EXPECT_EQ(dense.bytes_while_reading(100000, 512),
            391 * dense.full_page_bytes() + 7 * dense.sliding_page_bytes());
}

TEST(Cache, a_rejected_window_needs_no_undoing) {
  Bench bench;
  const auto cache = bench.cache();
  step(*cache, 5, 2);
  EXPECT_EQ(cache->length(), 2);
  step(*cache, 4, 0);
  EXPECT_EQ(cache->length(), 2);
  cache->truncate(1);
  EXPECT_EQ(cache->length(), 1);
}

TEST(Cache, gives_sliding_pages_back_when_no_later_row_sees_them) {
  Bench bench("tiny-dense", 16);
  const auto cache = bench.cache();
  EXPECT_TRUE(cache->resident(LayerKind::kFull).empty());
  write(*cache, kPagePositions + 15);
  EXPECT_EQ(bench.sliding(), 2u);
  // The row before the next one, from which an assistant drafts, sees position 255 now, and not later.
  write(*cache, kPagePositions + 16);
  EXPECT_EQ(bench.sliding(), 1u);
  write(*cache, 10 * kPagePositions + 3);
  EXPECT_EQ(bench.full(), 11u);
  EXPECT_EQ(bench.sliding(), 2u);
  const std::vector<PositionRange> all = {{0, cache->length()}},
                                   last = {{9 * kPagePositions, cache->length()}};
  EXPECT_EQ(cache->resident(LayerKind::kFull), all);
  EXPECT_EQ(cache->resident(LayerKind::kSliding), last);
  // What was staged and rejected costs no old page.
  step(*cache, 16, 0);
  EXPECT_EQ(cache->resident(LayerKind::kSliding), last);
}

TEST(Cache, keeps_one_key_more_for_an_assistant_that_is_told_to_see_it) {
  Bench bench("tiny-dense", 16);
  bench.layout->keep_extra(1);
  const auto cache = bench.cache();
  write(*cache, kPagePositions + 16);
  EXPECT_EQ(bench.sliding(), 2u);
  write(*cache, kPagePositions + 17);
  EXPECT_EQ(bench.sliding(), 1u);
}

TEST(Cache, pages_go_back_to_the_pool_with_the_sequence) {
  Bench bench;
  {
    const auto cache = bench.cache();
    cache->reserve(kPagePositions + 1);
    EXPECT_EQ(bench.full(), 2u);
    EXPECT_EQ(cache->length(), 0);
  }
  EXPECT_EQ(bench.full(), 0u);
  EXPECT_EQ(bench.sliding(), 0u);
  const auto cache = bench.cache();
  write(*cache, 700);
  cache->release();
  EXPECT_EQ(bench.pool.bytes_in_use(), 0u);
  EXPECT_EQ(cache->length(), 0);
  write(*cache, 10);
  EXPECT_EQ(bench.full(), 1u);
}

TEST(Cache, growth_that_is_refused_changes_nothing) {
  Bench bench("tiny-dense", 16);
  bench.pool.set_budget(4 * bench.pool.slab_bytes());
  const auto cache = bench.cache();
  write(*cache, kPagePositions - 8);
  // Others take what is left.
  std::vector<Page*> taken;
  for (const PageClass kind : {bench.classes.sliding, bench.classes.full}) {
    while (Page* page = bench.pool.allocate(kind)) taken.push_back(page);
  }
  const size_t full = bench.full(), sliding = bench.sliding();
  EXPECT_TRUE(cache->grow(8));
  EXPECT_FALSE(cache->grow(9));
  // Room for a full page alone is not enough, and is given back.
  Page* last = taken.back();
  if (last->page_class() == bench.classes.full) {
    bench.pool.unref(last);
    taken.pop_back();
    EXPECT_FALSE(cache->grow(9));
    EXPECT_EQ(bench.pool.free_pages(bench.classes.full), 1u);
    EXPECT_EQ(bench.full(), full - 1);
  }
  EXPECT_EQ(bench.sliding(), sliding);
  EXPECT_EQ(cache->end_page(LayerKind::kFull), 1);
  EXPECT_EQ(cache->end_page(LayerKind::kSliding), 1);
  EXPECT_EQ(cache->length(), kPagePositions - 8);
  for (Page* page : taken) bench.pool.unref(page);
  EXPECT_TRUE(cache->grow(9));
  EXPECT_EQ(cache->end_page(LayerKind::kFull), 2);
}

TEST(Cache, begins_with_pages_of_another_and_copies_the_last) {
  Bench bench("tiny-dense", 300);
  const auto first = bench.cache(), second = bench.cache();
  const int length = 3 * kPagePositions + 64;
  for (const int rows : {length, 20}) {
    for (int done = 0; done < rows; done += 4) {
      first->stage(4);
      for (size_t layer = 0; layer < bench.layout->layers().size(); ++layer) {
        if (!bench.layout->layers()[layer].owned) continue;
        for (int i = 0; i < 4; ++i) {
          const int position = first->length() + i;
          const auto value = static_cast<float>(position);
          std::memcpy(HostPages(*first).slot(static_cast<int>(layer), 0, 0, position), &value, sizeof(value));
        }
      }
      first->commit(4);
    }
  }
  const auto pages = [&](LayerKind kind) {
    std::vector<Page*> all;
    for (int64_t i = first->first_page(kind); i < pages_for(length); ++i) all.push_back(first->page(kind, i));
    return all;
  };
  const std::vector<Page*> full = pages(LayerKind::kFull), sliding = pages(LayerKind::kSliding);
  ASSERT_TRUE(second->adopt({.length = length, .full = full, .sliding = sliding}));
  EXPECT_EQ(second->length(), length);
  EXPECT_EQ(second->page(LayerKind::kFull, 0), first->page(LayerKind::kFull, 0));
  EXPECT_EQ(second->page(LayerKind::kSliding, 2), first->page(LayerKind::kSliding, 2));
  EXPECT_NE(second->page(LayerKind::kFull, 3), first->page(LayerKind::kFull, 3));
  EXPECT_NE(second->page(LayerKind::kSliding, 3), first->page(LayerKind::kSliding, 3));
  EXPECT_EQ(first->page(LayerKind::kFull, 0)->references(), 2);
  EXPECT_EQ(first->page(LayerKind::kFull, 3)->references(), 1);
  // They go on apart from each other.
  for (Cache* cache : {first.get(), second.get()}) {
    cache->stage(1);
    const auto value = static_cast<float>(cache == first.get() ? -1 : -2);
    std::memcpy(HostPages(*cache).slot(0, 0, 0, cache->length()), &value, sizeof(value));
    cache->commit(1);
  }
  const auto at = [](const Cache& cache, int layer, int position) {
    float value;
    std::memcpy(&value, HostPages(cache).slot(layer, 0, 0, position), sizeof(value));
    return value;
  };
  EXPECT_EQ(at(*first, 0, length), static_cast<float>(length));
  EXPECT_EQ(at(*second, 0, length), -2);
  for (size_t layer = 0; layer < bench.layout->layers().size(); ++layer) {
    const LayerLayout& one = bench.layout->layers()[layer];
    if (!one.owned) continue;
    for (int position = one.sliding ? length - 299 : 0; position < length; ++position)
      ASSERT_EQ(at(*second, static_cast<int>(layer), position), static_cast<float>(position));
  }
  first->release();
  EXPECT_EQ(at(*second, 0, length - 10), static_cast<float>(length - 10));
  second->release();
  EXPECT_EQ(bench.pool.bytes_in_use(), 0u);
}

TEST(Cache, an_adoption_that_is_refused_changes_nothing) {
  Bench bench("tiny-dense", 16);
  const auto first = bench.cache(), second = bench.cache();
  write(*first, 100);
  bench.pool.set_budget(bench.pool.bytes_in_use());
  std::vector<Page*> rest;
  while (Page* page = bench.pool.allocate(bench.classes.sliding)) rest.push_back(page);
  Page* full = first->page(LayerKind::kFull, 0);
  Page* sliding = first->page(LayerKind::kSliding, 0);
  EXPECT_FALSE(second->adopt({.length = 64, .full = {&full, 1}, .sliding = {&sliding, 1}}));
  EXPECT_EQ(second->length(), 0);
  EXPECT_EQ(full->references(), 1);
  EXPECT_EQ(sliding->references(), 1);
  for (Page* page : rest) bench.pool.unref(page);
}

TEST(CacheDeathTest, a_host_view_of_device_pages_and_the_reverse_are_refused) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Layout layout(config_of("tiny-dense"), Storage::kF32, 16);
  PageMemory memory = host_memory();
  memory.side = MemorySide::kDevice;
  PagePool device(memory), host;
  const Cache there(layout, device, add_classes(device, layout)),
      here(layout, host, add_classes(host, layout));
  EXPECT_DEATH(HostPages{there}, "kHost");
  EXPECT_DEATH(here.device_pages(LayerKind::kFull), "kDevice");
  EXPECT_TRUE(there.device_pages(LayerKind::kFull).pages.empty());
}

TEST(Cache, gives_a_device_the_pages_that_its_rows_use) {
  const Layout layout(config_of("tiny-dense"), Storage::kF32, 16);
  PageMemory memory = host_memory();
  memory.side = MemorySide::kDevice;
  PagePool pool(memory);
  Cache cache(layout, pool, add_classes(pool, layout));
  cache.reserve(2000);
  cache.keep_until_trimmed();
  write(cache, 5 * kPagePositions - 3);
  EXPECT_EQ(cache.first_page(LayerKind::kSliding), 0);
  const int64_t first = layout.first_kept(cache.length()) / kPagePositions;
  ASSERT_GT(first, 0);
  cache.stage(3);
  EXPECT_EQ(cache.device_pages(LayerKind::kFull).pages.size(), 5u);
  EXPECT_EQ(cache.device_pages(LayerKind::kSliding).first, first);
  EXPECT_EQ(cache.device_pages(LayerKind::kSliding).pages.size(), static_cast<size_t>(5 - first));
  cache.stage(4);
  EXPECT_EQ(cache.device_pages(LayerKind::kFull).first, 0);
  EXPECT_EQ(cache.device_pages(LayerKind::kFull).pages.size(), 6u);
}

TEST(CacheDeathTest, what_others_refer_to_is_not_forgotten) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Bench bench;
  const auto cache = bench.cache();
  write(*cache, 100);
  cache->share_up_to(64);
  EXPECT_DEATH(cache->truncate(63), "shared_");
  cache->truncate(64);
  EXPECT_EQ(cache->length(), 64);
}

/// Random staging, committing and rejecting against a plain map of what each position should hold. Every
/// visible slot is compared after every step, for windows and step sizes around the page size.
TEST(Cache, keeps_every_visible_position_through_random_commits_and_rejections) {
  for (const int window : {1, 7, 255, 256, 257, 600}) {
    for (const int most : {1, 5, 64, 300}) {
      Bench bench("tiny-dense", window, most);
      bench.pool.poison_new_pages(true);
      const auto cache = bench.cache();
      const HostPages pages(*cache);
      int sliding = 0, full = 0;
      for (int l = 0; l < bench.config.layer_count(); ++l)
        (bench.layout->layers()[static_cast<size_t>(l)].sliding ? sliding : full) = l;
      std::map<int, float> expected;
      uint64_t draws = 0;
      const auto draw = [&](int limit) {
        return static_cast<int>(keyed_bits(static_cast<uint64_t>(window * 1000 + most), draws++) %
                                static_cast<uint64_t>(limit));
      };
      float next = 1;
      while (cache->length() + most < 2500 && draws < 2000) {
        const int rows = 1 + draw(most);
        cache->stage(rows);
        for (int i = 0; i < rows; ++i) {
          const int position = cache->length() + i;
          expected[position] = next++;
          for (const int layer : {sliding, full})
            std::memcpy(pages.slot(layer, 0, 0, position), &expected[position], sizeof(float));
        }
        // What the first staged row sees is there while all of them are written.
        for (int position = std::max(0, cache->length() - window + 1); position < cache->length() + rows;
             ++position) {
          float value;
          std::memcpy(&value, pages.slot(sliding, 0, 0, position), sizeof(value));
          ASSERT_EQ(value, expected[position])
              << "sliding, window " << window << ", step " << most << ", position " << position;
        }
        for (int position = 0; position < cache->length() + rows; position += 1 + position / 7) {
          float value;
          std::memcpy(&value, pages.slot(full, 0, 0, position), sizeof(value));
          ASSERT_EQ(value, expected[position]) << "full, position " << position;
        }
        cache->commit(draw(rows + 1));
      }
    }
  }
}

}  // namespace
}  // namespace slip::kv
