// Random staging, writing, committing, rejecting and going back against a plain vector per layer. Lengths to
// go back to are drawn around the edge of what sliding layers still hold.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/noise.h"
#include "kv/host_pages.h"
#include "support/rounds.h"
#include "synth/shapes.h"

namespace slip::kv {
namespace {

class Fuzzed {
 public:
  Fuzzed(int window, int most_rows, uint64_t seed)
      : config_(config_of(window)),
        layout_(config_, Storage::kF32, most_rows),
        cache_(layout_, pool_, add_classes(pool_, layout_)),
        window_(window),
        most_rows_(most_rows),
        seed_(seed) {
    pool_.poison_new_pages(true);
    for (int layer = 0; layer < config_.layer_count(); ++layer) {
      if (layout_.layers()[static_cast<size_t>(layer)].owned) layers_.push_back(layer);
    }
    expected_.assign(layers_.size(), {});
  }

  void step() {
    if (cache_.length() + most_rows_ >= kPositions || draw(12) == 0) go_back();
    const int rows = 1 + draw(most_rows_);
    cache_.stage(rows);
    for (size_t i = 0; i < layers_.size(); ++i) {
      // A plain vector: what lies beyond the length is gone, then the new rows follow.
      expected_[i].resize(static_cast<size_t>(cache_.length()));
      for (int row = 0; row < rows; ++row) {
        const float value = static_cast<float>(next_++ % 16000000);
        expected_[i].push_back(value);
        write(layers_[i], cache_.length() + row, value);
      }
    }
    // Before the commit, as attention reads: the first row sees window - 1 positions behind itself.
    check(cache_.length() + rows);
    cache_.commit(draw(3) == 0 ? draw(rows + 1) : rows);
    for (auto& values : expected_) values.resize(static_cast<size_t>(cache_.length()));
    check(cache_.length());
  }

 private:
  static constexpr int kPositions = 2600;

  static model::Config config_of(int window) {
    model::Config config = synth::shape_config("tiny-dense");
    config.window = window;
    return config;
  }
  int draw(int limit) { return static_cast<int>(keyed_bits(seed_, draws_++) % static_cast<uint64_t>(limit)); }

  // The shortest length to go back to: the oldest key a row there sees must not have been given back.
  int shortest() const {
    const auto oldest = static_cast<int>(cache_.first_page(model::LayerKind::kSliding)) * kPagePositions;
    return oldest == 0 ? 0 : std::min(cache_.length(), oldest + window_ - 1);
  }

  void go_back() {
    const int least = shortest();
    const int span = cache_.length() - least;
    const int length = least + (draw(2) == 0 ? std::min(draw(3), span) : draw(span + 1));
    cache_.truncate(length);
    if (cache_.length() + most_rows_ >= kPositions) cache_.truncate(0);
    for (auto& values : expected_) values.resize(static_cast<size_t>(cache_.length()));
  }

  void write(int layer, int position, float value) {
    for (int part = 0; part < layout_.layers()[static_cast<size_t>(layer)].parts; ++part) {
      const float stored = value + static_cast<float>(part) * 0.5f;
      std::memcpy(HostPages(cache_).slot(layer, part, 0, position), &stored, sizeof(stored));
    }
  }

  void check(int end) {
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerLayout& layer = layout_.layers()[static_cast<size_t>(layers_[i])];
      const int first = layer.sliding ? std::max(0, cache_.length() - window_ + 1) : 0;
      const int stride = layer.sliding ? 1 : 1 + draw(17);
      for (int position = first; position < end; position += stride) {
        for (int part = 0; part < layer.parts; ++part) {
          float value;
          std::memcpy(&value, HostPages(cache_).slot(layers_[i], part, 0, position), sizeof(value));
          ASSERT_EQ(value, expected_[i][static_cast<size_t>(position)] + static_cast<float>(part) * 0.5f)
              << "layer " << layers_[i] << " part " << part << " position " << position << " length "
              << cache_.length() << " window " << window_ << " rows " << most_rows_;
        }
      }
    }
  }

  model::Config config_;
  Layout layout_;
  PagePool pool_;
  Cache cache_;
  int window_, most_rows_;
  uint64_t seed_, draws_ = 0, next_ = 1;
  std::vector<int> layers_;
  std::vector<std::vector<float>> expected_;  // [layer][position]
};

TEST(CacheFuzz, holds_what_a_plain_vector_holds) {
  for (const int window : {1, 16, 255, 256, 257, 512}) {
    for (const int most_rows : {1, 6, 16, 70, 300}) {
      Fuzzed fuzzed(window, most_rows, static_cast<uint64_t>(window * 1000 + most_rows));
      for (int step = 0; step < test::rounds(150); ++step) {
        fuzzed.step();
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace slip::kv
