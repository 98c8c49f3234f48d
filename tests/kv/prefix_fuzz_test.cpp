// Many sequences with common beginnings on pools that are too small: after every hit the caches hold exactly what the
// sequence would have computed, and in the end every page is back.
#include "kv/prefix_bench.h"
#include "support/rounds.h"

namespace slip::kv {
namespace {

class Fuzz {
 public:
  Fuzz(int window, int slabs, int networks, uint64_t key_mask, uint64_t seed)
      : bench_(std::vector<model::Config>(static_cast<size_t>(networks), two_layers(window)), key_mask),
        seed_(seed) {
    if (slabs > 0) bench_.pool.set_budget(static_cast<size_t>(slabs) * bench_.pool.slab_bytes());
    bench_.pool.poison_new_pages(true);
  }

  void step() {
    const int choice = draw(10);
    if (running_.size() < 4 && choice < 4) return start();
    if (running_.empty()) return;
    const auto which = static_cast<size_t>(draw(static_cast<int>(running_.size())));
    PrefixSequence& sequence = *running_[which];
    if (choice < 8) {
      const auto length = static_cast<int>(sequence.tokens().size());
      const int now = std::min(length, sequence.cache().length() + 1 + draw(400));
      if (draw(4) == 0) bench_.prefixes->mark_boundary(sequence.chain, now + draw(100) - 50);
      if (!sequence.read(now, 1 + draw(300))) {  // thrown out, as the youngest would be
        ++refused_;
        if (draw(2) == 0) sequence.end();
        running_.erase(running_.begin() + static_cast<ptrdiff_t>(which));
      } else if (now == length) {
        sequence.append(random_tokens(next_++, 1 + draw(300)));
      }
    } else {
      texts_.push_back(sequence.tokens());
      running_.erase(running_.begin() + static_cast<ptrdiff_t>(which));
    }
  }
  void finish() {
    running_.clear();
    const PrefixCache::Counts counts = bench_.prefixes->counts();
    EXPECT_EQ(counts.bytes_held_only, bench_.pool.bytes_live());
    EXPECT_LE(counts.restored, counts.matched);
    EXPECT_LE(counts.matched, counts.asked);
    bench_.prefixes->clear();
    EXPECT_EQ(bench_.prefixes->counts().nodes, 0u);
    EXPECT_EQ(bench_.pool.bytes_live(), 0u);
    EXPECT_EQ(bench_.pool.bytes_in_use(), 0u);
  }
  int64_t restored() const { return bench_.prefixes->counts().restored; }
  int refused() const { return refused_; }

 private:
  int draw(int limit) { return static_cast<int>(keyed_bits(seed_, draws_++) % static_cast<uint64_t>(limit)); }

  /// A prompt that begins as another one did, up to anywhere, often a little before its end; with pictures, which are
  /// part of what is common, of two tenants.
  void start() {
    std::vector<int> tokens;
    if (!texts_.empty() && draw(4) != 0) {
      tokens = texts_[static_cast<size_t>(draw(static_cast<int>(texts_.size())))];
      const auto length = static_cast<int>(tokens.size());
      tokens.resize(static_cast<size_t>(draw(2) == 0 ? std::max(0, length - draw(80)) : draw(length + 1)));
    }
    tokens = joined(tokens, random_tokens(next_++, 1 + draw(600)));
    std::vector<MediaSpan> media;
    for (int first = 100; first + 80 < static_cast<int>(tokens.size()); first += 500) {
      if (draw(3) == 0) continue;
      media.push_back({.first = first, .rows = 80, .both_ways = draw(2) == 0, .key = {}});
      media.back().key[0] = static_cast<std::byte>(draw(2));
    }
    const Salt salt{.high = static_cast<uint64_t>(draw(2)), .low = 0};
    running_.push_back(std::make_unique<PrefixSequence>(bench_, tokens, media, salt));
    running_.back()->begin();
    texts_.push_back(std::move(tokens));
    if (texts_.size() > 30) texts_.erase(texts_.begin());
  }

  PrefixBench bench_;
  std::vector<std::unique_ptr<PrefixSequence>> running_;
  std::vector<std::vector<int>> texts_;
  uint64_t seed_, draws_ = 0, next_ = 1;
  int refused_ = 0;
};

TEST(PrefixFuzz, every_hit_holds_what_would_have_been_computed) {
  int64_t restored = 0;
  int refused = 0;
  uint64_t seed = 1;
  for (const int window : {1, 64, 100, 300, 700}) {
    for (const int slabs : {0, 12, 25, 60}) {
      for (const int networks : {1, 2}) {
        Fuzz fuzz(window, slabs, networks, seed % 5 == 0 ? 1 : ~uint64_t{0}, seed);
        for (int i = 0; i < test::rounds(300); ++i) {
          fuzz.step();
          if (testing::Test::HasFailure()) {
            FAIL() << "window " << window << ", slabs " << slabs << ", networks " << networks << ", step "
                   << i;
          }
        }
        restored += fuzz.restored();
        refused += fuzz.refused();
        fuzz.finish();
        ++seed;
      }
    }
  }
  EXPECT_GT(restored, 50000);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace slip::kv
