// What tests of the prefix cache share: sequences without a model. The value at a position is a hash of everything up
// to it, so a page of another history, or a wrong position, is found out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/noise.h"
#include "kv/host_pages.h"
#include "kv/prefix_cache.h"
#include "synth/shapes.h"

namespace slip::kv {

/// A layer of each kind, 8 and 16 bytes a position: pages of 2 and 4 KiB.
inline model::Config two_layers(int window) {
  model::LayerConfig full{
      .kind = model::LayerKind::kFull, .heads = 1, .kv_heads = 1, .head_dim = 1, .intermediate = 1};
  model::LayerConfig sliding = full;
  sliding.kind = model::LayerKind::kSliding;
  sliding.head_dim = 2;
  sliding.kv_source = 1;
  model::Config config;
  config.vocab = 1000;
  config.hidden = 4;
  config.window = window;
  config.max_positions = 1 << 16;
  config.layers = {full, sliding};
  return config;
}

/// One pool, a prefix cache, and caches of one or two networks.
class PrefixBench {
 public:
  explicit PrefixBench(std::vector<model::Config> configs, uint64_t key_mask = ~uint64_t{0},
                       int most_rows = 512) {
    PrefixCache::Layouts all;
    for (const model::Config& config : configs) {
      layouts.push_back(std::make_unique<Layout>(config, Storage::kF32, most_rows));
      classes.push_back(add_classes(pool, *layouts.back()));
      all.push_back(layouts.back().get());
    }
    prefixes = std::make_unique<PrefixCache>(pool, "model", all, key_mask);
  }
  explicit PrefixBench(int window, uint64_t key_mask = ~uint64_t{0})
      : PrefixBench(std::vector<model::Config>{two_layers(window)}, key_mask) {}

  std::vector<std::unique_ptr<Layout>> layouts;
  PagePool pool{host_memory(), 1};
  std::vector<PageClasses> classes;
  std::unique_ptr<PrefixCache> prefixes;
};

/// One sequence: its history, its caches and its chain.
class PrefixSequence {
 public:
  PrefixSequence(PrefixBench& bench, std::vector<int> tokens, std::vector<MediaSpan> media = {},
                 Salt salt = {})
      : bench_(bench), tokens_(std::move(tokens)), media_(std::move(media)), salt_(salt) {
    for (size_t i = 0; i < bench.layouts.size(); ++i) {
      caches_.push_back(std::make_unique<Cache>(*bench.layouts[i], bench.pool, bench.classes[i]));
      views_.push_back(caches_.back().get());
    }
    hash();
  }

  /// Begins from what is there, and checks every value that came with it.
  Match begin() {
    const Match match = bench_.prefixes->adopt(
        chain, {.salt = salt_, .content = content(), .most = static_cast<int>(tokens_.size()) - 1}, views_);
    for (const auto& cache : caches_) EXPECT_EQ(cache->length(), match.positions);
    EXPECT_EQ(chain.position(), match.positions);
    check();
    return match;
  }
  /// Computes up to `length` in steps; false if the pool refuses.
  bool read(int length, int step = 256) {
    while (cache().length() < length) {
      const int rows = std::min(step, length - cache().length());
      for (Cache* one : views_) {
        if (!one->grow(rows)) return false;
      }
      for (Cache* one : views_) write(*one, rows);
      bench_.prefixes->extend(chain, content(), views_, cache().length());
    }
    check();
    return true;
  }
  bool read_all(int step = 256) { return read(static_cast<int>(tokens_.size()), step); }
  void append(const std::vector<int>& tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    hash();
  }
  void end() {
    chain.end();
    for (const auto& cache : caches_) cache->release();
  }

  /// Every position that a later row could see.
  void check() const {
    for (const auto& cache : caches_) {
      for (size_t layer = 0; layer < cache->layout().layers().size(); ++layer) {
        const bool sliding = cache->layout().layers()[layer].sliding;
        const auto first = sliding ? static_cast<int>(cache->layout().first_kept(cache->length())) : 0;
        for (int position = first; position < cache->length(); ++position)
          ASSERT_EQ(at(*cache, static_cast<int>(layer), position), value(position))
              << "layer " << layer << " position " << position << " of " << cache->length();
      }
    }
  }

  Content content() const { return {.tokens = tokens_, .media = media_}; }
  const std::vector<int>& tokens() const { return tokens_; }
  Cache& cache(size_t index = 0) { return *caches_[index]; }
  std::span<Cache* const> caches() const { return views_; }

  PrefixCache::Chain chain;

 private:
  void hash() {
    uint64_t state = salt_.high;
    hashes_.clear();
    for (size_t i = 0; i < tokens_.size(); ++i) {
      state = noise_key(state, static_cast<uint64_t>(tokens_[i]));
      for (const MediaSpan& span : media_) {
        const auto place = static_cast<int>(i) - span.first;
        // Rows that see each other depend on all of them.
        if (place >= 0 && place < span.rows)
          state = noise_key(state, static_cast<uint64_t>(span.key[0]) * 1000 + static_cast<uint64_t>(place));
      }
      hashes_.push_back(static_cast<uint32_t>(state >> 40));
    }
  }
  float value(int position) const { return static_cast<float>(hashes_[static_cast<size_t>(position)]); }
  static float at(const Cache& cache, int layer, int position) {
    float value;
    std::memcpy(&value, HostPages(cache).slot(layer, 1, 0, position), sizeof(value));
    return value;
  }
  void write(Cache& cache, int rows) {
    cache.stage(rows);
    for (int i = 0; i < rows; ++i) {
      for (size_t layer = 0; layer < cache.layout().layers().size(); ++layer) {
        const float stored = value(cache.length() + i);
        std::memcpy(HostPages(cache).slot(static_cast<int>(layer), 1, 0, cache.length() + i), &stored,
                    sizeof(stored));
      }
    }
    cache.commit(rows);
  }

  PrefixBench& bench_;
  std::vector<int> tokens_;
  std::vector<MediaSpan> media_;
  Salt salt_;
  std::vector<uint32_t> hashes_;
  std::vector<std::unique_ptr<Cache>> caches_;
  std::vector<Cache*> views_;
};

/// Tokens that follow from a seed.
inline std::vector<int> random_tokens(uint64_t seed, int count) {
  std::vector<int> tokens;
  for (int i = 0; i < count; ++i)
    tokens.push_back(static_cast<int>(keyed_bits(seed, static_cast<uint64_t>(i)) % 1000));
  return tokens;
}
inline std::vector<int> joined(std::vector<int> first, const std::vector<int>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace slip::kv
