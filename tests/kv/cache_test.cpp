#include "kv/cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/noise.h"
#include "synth/shapes.h"

namespace slip::kv {
namespace {

model::Config config_of(const char* shape) {
  return synth::shape_config(shape);
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
  EXPECT_EQ(Layout(config_of("e2b"), Storage::kBf16, 512).global_page_bytes(), size_t{6144} * kPagePositions);
  EXPECT_EQ(Layout(config_of("31b"), Storage::kBf16, 512).global_page_bytes(),
            size_t{40} * 1024 * kPagePositions);
  EXPECT_EQ(Layout(config_of("e2b"), Storage::kBf16, 512).ring_page_bytes(),
            size_t{12} * 1024 * kPagePositions);
}

TEST(Cache, a_rejected_window_needs_no_undoing) {
  const model::Config config = config_of("tiny-dense");
  const Layout layout(config, Storage::kF32, 16);
  PagePool pool(layout.global_page_bytes());
  Cache cache(layout, pool);
  cache.reserve(1000);
  cache.stage(5);
  cache.commit(2);
  EXPECT_EQ(cache.length(), 2);
  cache.stage(4);
  cache.commit(0);
  EXPECT_EQ(cache.length(), 2);
  cache.truncate(1);
  EXPECT_EQ(cache.length(), 1);
}

TEST(Cache, says_of_which_positions_it_still_holds_keys) {
  const model::Config config = config_of("tiny-dense");
  const Layout layout(config, Storage::kF32, 16);
  PagePool pool(layout.global_page_bytes());
  Cache cache(layout, pool);
  cache.reserve(20 * kPagePositions);
  EXPECT_TRUE(cache.resident(model::LayerKind::kFull).empty());
  while (cache.length() < 10 * kPagePositions + 3) {
    cache.stage(1);
    cache.commit(1);
  }
  const std::vector<PositionRange> all = {{0, cache.length()}};
  EXPECT_EQ(cache.resident(model::LayerKind::kFull), all);
  const int64_t first = (10 - layout.ring_pages() + 1) * int64_t{kPagePositions};
  EXPECT_EQ(cache.resident(model::LayerKind::kSliding),
            (std::vector<PositionRange>{{first, cache.length()}}));
  // Rows that were staged have overwritten what lay a ring behind them, whether they were kept or not.
  while (cache.length() < 11 * kPagePositions - 8) {
    cache.stage(1);
    cache.commit(1);
  }
  cache.stage(16);
  cache.commit(0);
  EXPECT_EQ(cache.resident(model::LayerKind::kSliding)[0].first, first + kPagePositions);
}

TEST(Cache, pages_go_back_to_the_pool_with_the_sequence) {
  const model::Config config = config_of("tiny-dense");
  const Layout layout(config, Storage::kBf16, 16);
  PagePool pool(layout.global_page_bytes());
  {
    Cache cache(layout, pool);
    cache.reserve(kPagePositions + 1);
    EXPECT_EQ(pool.pages_in_use(), 2u);
    EXPECT_EQ(cache.capacity(), 2 * kPagePositions);
  }
  EXPECT_EQ(pool.pages_in_use(), 0u);
}

/// Random staging, committing and rejecting against a plain map of what each position should hold. Every
/// visible slot is compared after every step, for windows and step sizes around the page size.
TEST(Cache, keeps_every_visible_position_through_random_commits_and_rejections) {
  for (const int window : {1, 7, 255, 256, 257, 600}) {
    for (const int most : {1, 5, 64, 300}) {
      model::Config config = config_of("tiny-dense");
      config.window = window;
      const Layout layout(config, Storage::kF32, most);
      PagePool pool(layout.global_page_bytes());
      Cache cache(layout, pool);
      cache.reserve(3000);
      int sliding = 0, full = 0;
      for (int l = 0; l < config.layer_count(); ++l)
        (layout.layers()[static_cast<size_t>(l)].ring ? sliding : full) = l;
      std::map<int, float> expected;
      uint64_t draws = 0;
      const auto draw = [&](int limit) {
        return static_cast<int>(keyed_bits(static_cast<uint64_t>(window * 1000 + most), draws++) %
                                static_cast<uint64_t>(limit));
      };
      float next = 1;
      while (cache.length() + most < 2500 && draws < 2000) {
        const int rows = 1 + draw(most);
        cache.stage(rows);
        for (int i = 0; i < rows; ++i) {
          const int position = cache.length() + i;
          expected[position] = next++;
          for (const int layer : {sliding, full})
            std::memcpy(cache.slot(layer, 0, 0, position), &expected[position], sizeof(float));
        }
        // What the first staged row sees must have survived the writing of all of them.
        for (int position = std::max(0, cache.length() - window + 1); position < cache.length() + rows;
             ++position) {
          float value;
          std::memcpy(&value, cache.slot(sliding, 0, 0, position), sizeof(value));
          ASSERT_EQ(value, expected[position])
              << "sliding, window " << window << ", step " << most << ", position " << position;
        }
        for (int position = 0; position < cache.length() + rows; position += 1 + position / 7) {
          float value;
          std::memcpy(&value, cache.slot(full, 0, 0, position), sizeof(value));
          ASSERT_EQ(value, expected[position]) << "full, position " << position;
        }
        cache.commit(draw(rows + 1));
      }
    }
  }
}

}  // namespace
}  // namespace slip::kv
