// Keys of pages: what is equal, and what must not be.
#include "kv/page_key.h"

#include <gtest/gtest.h>

#include <unordered_set>
#include <vector>

namespace slip::kv {
namespace {

const std::vector<int> kTokens = {2, 105, 2364, 107};

TEST(PageKey, follows_from_everything_before_it) {
  const PageKey root = root_key("weights, bf16", {});
  const PageKey one = chain(root, kTokens);
  EXPECT_EQ(one, chain(root_key("weights, bf16", {}), kTokens));
  EXPECT_NE(one, chain(one, kTokens));
  EXPECT_NE(one, chain(root_key("weights, f32", {}), kTokens));
  EXPECT_NE(one, root);
}

TEST(PageKey, of_two_tenants_differ_from_the_root_on) {
  const PageKey a = root_key("w", salt_of("alice")), b = root_key("w", salt_of("bob")),
                c = root_key("w", salt_of(""));
  EXPECT_NE(chain(a, kTokens), chain(b, kTokens));
  EXPECT_NE(chain(a, kTokens), chain(c, kTokens));
  EXPECT_EQ(salt_of(""), Salt{});
}

TEST(PageKey, of_media_follow_from_key_and_offset_and_are_no_tokens) {
  const PageKey root = root_key("w", {});
  MediaKey red = {}, blue = {};
  blue[31] = std::byte{1};
  EXPECT_NE(chain(root, red, 0, 4), chain(root, blue, 0, 4));
  EXPECT_NE(chain(root, red, 0, 4), chain(root, red, 4, 4));
  EXPECT_NE(chain(root, red, 0, 0), chain(root, std::span<const int>()));
}

TEST(PageKey, tells_close_relatives_apart) {
  std::unordered_set<PageKey, PageKeyHash> keys;
  const PageKey root = root_key("w", {});
  for (int first = 0; first < 64; ++first) {
    for (int second = 0; second < 64; ++second) keys.insert(chain(root, std::vector<int>{first, second}));
    keys.insert(chain(root, std::vector<int>{first}));
  }
  EXPECT_EQ(keys.size(), 64u * 64 + 64);
}

}  // namespace
}  // namespace slip::kv
