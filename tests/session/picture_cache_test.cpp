// Which pictures are known, and for how long.
#include "session/picture_cache.h"

#include <gtest/gtest.h>

#include <set>

#include "session/media_key.h"

namespace slip::session {
namespace {

constexpr int kHidden = 4;

kv::MediaKey key_of(int number) {
  kv::MediaKey key{};
  key[0] = static_cast<std::byte>(number);
  return key;
}

/// A picture of one soft row: 16 bytes.
std::shared_ptr<PictureRows> picture(int number) {
  const std::vector<uint8_t> white(48 * 48 * 3, 255);
  return std::make_shared<PictureRows>(
      key_of(number), media::cut_patches(white.data(), 48, 48, media::PatchSide::kPatch), kHidden, 0);
}

std::shared_ptr<PictureRows> kept(PictureCache& cache, int number) {
  auto rows = cache.add(picture(number));
  rows->finish(std::make_shared<backend::HostSoftRows>(std::vector<float>(kHidden), kHidden));
  cache.keep(rows);
  return rows;
}

TEST(PictureCache, finds_what_somebody_holds_and_what_it_keeps) {
  PictureCache cache(1000);
  auto waiting = cache.add(picture(1));
  EXPECT_EQ(cache.find(key_of(1)), waiting);
  EXPECT_EQ(cache.add(picture(1)), waiting) << "the second to look gets what the first one has";
  EXPECT_EQ(cache.bytes(), 0u);
  waiting = nullptr;
  EXPECT_EQ(cache.find(key_of(1)), nullptr) << "nobody waits for it any more";

  kept(cache, 2);
  ASSERT_NE(cache.find(key_of(2)), nullptr);
  EXPECT_EQ(cache.bytes(), 16u);
  EXPECT_NE(cache.find(key_of(2))->made(), nullptr);
}

TEST(PictureCache, lets_the_least_recently_used_go_first) {
  PictureCache cache(3 * 16);
  for (int i = 1; i <= 3; ++i) kept(cache, i);
  cache.find(key_of(1));
  const auto held = cache.find(key_of(3));
  cache.find(key_of(1));
  kept(cache, 4);
  EXPECT_EQ(cache.find(key_of(2)), nullptr);
  EXPECT_NE(cache.find(key_of(1)), nullptr);
  kept(cache, 5);
  EXPECT_EQ(cache.find(key_of(3)), held) << "not kept any more, but somebody holds it";
  EXPECT_EQ(cache.bytes(), 3u * 16);
}

TEST(PictureCache, forgets_what_went_wrong) {
  PictureCache cache(1000);
  const auto rows = cache.add(picture(1));
  rows->fail(std::make_exception_ptr(std::runtime_error("no")));
  cache.forget(*rows);
  EXPECT_EQ(cache.find(key_of(1)), nullptr);
  const auto again = kept(cache, 1);
  cache.forget(*rows);
  EXPECT_EQ(cache.find(key_of(1)), again) << "another picture of that name";
  EXPECT_THROW(rows->made(), std::runtime_error);
}

TEST(MediaKey, differs_by_all_that_the_rows_depend_on) {
  const std::string bytes(5000, 'x');
  std::string other = bytes;
  other.back() = 'y';
  const auto key = [](const std::string& of, const PictureIdentity& identity) {
    return media_key(std::as_bytes(std::span(of)), identity);
  };
  const PictureIdentity plain{.tower = "a", .budget = 280};
  std::set<kv::MediaKey> keys{key(bytes, plain), key(other, plain), key(bytes.substr(1), plain),
                              key("", plain)};
  keys.insert(key(bytes, {.tower = "b", .budget = 280}));
  keys.insert(key(bytes, {.tower = "a", .salt = {.high = 1, .low = 0}, .budget = 280}));
  keys.insert(key(bytes, {.tower = "a", .salt = {.high = 0, .low = 1}, .budget = 280}));
  keys.insert(key(bytes, {.tower = "a", .budget = 70}));
  keys.insert(key(bytes, {.tower = "a", .budget = 280, .side = media::PatchSide::kBlock}));
  EXPECT_EQ(keys.size(), 9u);
  EXPECT_EQ(key(bytes, plain), key(std::string(5000, 'x'), plain));
}

}  // namespace
}  // namespace slip::session
