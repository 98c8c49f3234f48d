#include "backend/cpu/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/elementwise.h"
#include "base/float16.h"
#include "support/memory_tensor.h"
#include "support/simd_targets.h"

namespace slip::backend::cpu {
namespace {

constexpr int kKeys = kKeySplit;

/// A page of random keys and values, as floats and as stored.
struct TestPage {
  TestPage(int head_dim, kv::Storage storage)
      : hd(head_dim), keys(static_cast<size_t>(kKeys * hd)), values(keys.size()) {
    for (size_t i = 0; i < keys.size(); ++i) {
      keys[i] = round_to_bf16(test::noise(1, i));
      values[i] = round_to_bf16(test::noise(2, i));
    }
    stored_keys.resize(keys.size() * 4);
    stored_values.resize(keys.size() * 4);
    const auto store = [&](const std::vector<float>& from, std::vector<std::byte>& to) {
      if (storage == kv::Storage::kF32) {
        std::memcpy(to.data(), from.data(), from.size() * 4);
      } else {
        store_bf16(from.data(), static_cast<int64_t>(from.size()), reinterpret_cast<uint16_t*>(to.data()));
      }
    };
    store(keys, stored_keys);
    store(values, stored_values);
    page = {.keys = stored_keys.data(), .values = stored_values.data(), .storage = storage, .head_dim = hd};
  }
  int hd;
  std::vector<float> keys, values;
  std::vector<std::byte> stored_keys, stored_values;
  Page page;
};

std::vector<double> naive(const TestPage& page, const float* query, int first, int last) {
  std::vector<double> scores, out(static_cast<size_t>(page.hd), 0.0);
  double largest = -1e300, total = 0;
  for (int k = first; k < last; ++k) {
    double score = 0;
    for (int i = 0; i < page.hd; ++i)
      score += static_cast<double>(query[i]) * page.keys[static_cast<size_t>(k * page.hd + i)];
    scores.push_back(score);
    largest = std::max(largest, score);
  }
  for (double& score : scores) total += score = std::exp(score - largest);
  for (int k = first; k < last; ++k) {
    for (int i = 0; i < page.hd; ++i) {
      out[static_cast<size_t>(i)] +=
          scores[static_cast<size_t>(k - first)] / total * page.values[static_cast<size_t>(k * page.hd + i)];
    }
  }
  return out;
}

struct Case {
  int head_dim;
  int heads;
};

class Attention : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(Case{16, 4}, Case{32, 1}, Case{20, 3}, Case{256, 8}, Case{512, 2}),
                         [](const auto& test) {
                           return "hd" + std::to_string(test.param.head_dim) + "_heads" +
                                  std::to_string(test.param.heads);
                         });

TEST_P(Attention, over_part_of_a_page_is_the_softmax_of_the_scores_times_the_values) {
  const int hd = GetParam().head_dim, heads = GetParam().heads;
  test::for_each_simd_target([&] {
    for (const auto storage : {kv::Storage::kBf16, kv::Storage::kF32}) {
      const TestPage page(hd, storage);
      std::vector<float> queries(static_cast<size_t>(heads * hd));
      for (size_t i = 0; i < queries.size(); ++i) queries[i] = test::noise(3, i);
      std::vector<float> scratch(attend_scratch_floats(hd)),
          partials(static_cast<size_t>(heads * partial_floats(hd)));
      for (const auto& [first, last] : {std::pair{0, kKeys}, {0, 1}, {255, 256}, {3, 50}, {7, 9}}) {
        const PageRow row{
            .queries = queries.data(), .first = first, .last = last, .partials = partials.data()};
        attend_page(page.page, &row, 1, heads, scratch.data());
        for (int h = 0; h < heads; ++h) {
          std::vector<float> out(static_cast<size_t>(hd));
          finish_partial(&partials[static_cast<size_t>(h * partial_floats(hd))], hd, out.data());
          const auto want = naive(page, &queries[static_cast<size_t>(h * hd)], first, last);
          for (int i = 0; i < hd; ++i)
            EXPECT_NEAR(out[static_cast<size_t>(i)], want[static_cast<size_t>(i)], 2e-5);
        }
      }
    }
  });
}

TEST_P(Attention, gives_a_row_the_same_bits_alone_and_in_a_block) {
  const int hd = GetParam().head_dim, heads = GetParam().heads;
  test::for_each_simd_target([&] {
    const TestPage page(hd, kv::Storage::kBf16);
    const int rows = kMaxPageQueries / heads;
    const auto floats = static_cast<size_t>(heads * partial_floats(hd));
    std::vector<float> queries(static_cast<size_t>(rows * heads * hd));
    for (size_t i = 0; i < queries.size(); ++i) queries[i] = test::noise(3, i);
    std::vector<float> scratch(attend_scratch_floats(hd));
    std::vector<float> together(static_cast<size_t>(rows) * floats), alone(floats);
    std::vector<PageRow> block;
    for (int r = 0; r < rows; ++r) {
      block.push_back({.queries = &queries[static_cast<size_t>(r * heads * hd)],
                       .first = r * 3 % 100,
                       .last = 101 + r * 7 % 155,
                       .partials = &together[static_cast<size_t>(r) * floats]});
    }
    attend_page(page.page, block.data(), rows, heads, scratch.data());
    for (int r = 0; r < rows; ++r) {
      PageRow row = block[static_cast<size_t>(r)];
      row.partials = alone.data();
      attend_page(page.page, &row, 1, heads, scratch.data());
      EXPECT_EQ(std::memcmp(alone.data(), &together[static_cast<size_t>(r) * floats], floats * sizeof(float)),
                0)
          << "row " << r;
    }
  });
}

TEST(Merging, two_pages_gives_the_softmax_over_both) {
  constexpr int kDim = 24;
  const TestPage page(kDim, kv::Storage::kF32);
  std::vector<float> query(kDim), scratch(attend_scratch_floats(kDim));
  for (size_t i = 0; i < query.size(); ++i) query[i] = 3 * test::noise(3, i);
  std::vector<float> left(partial_floats(kDim)), right(left.size()), out(kDim);
  const PageRow first{.queries = query.data(), .first = 5, .last = 90, .partials = left.data()};
  const PageRow second{.queries = query.data(), .first = 90, .last = 256, .partials = right.data()};
  attend_page(page.page, &first, 1, 1, scratch.data());
  attend_page(page.page, &second, 1, 1, scratch.data());
  merge_partial(right.data(), kDim, left.data());
  finish_partial(left.data(), kDim, out.data());
  const auto want = naive(page, query.data(), 5, 256);
  for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], want[i], 1e-5);
}

}  // namespace
}  // namespace slip::backend::cpu
