// A backend whose model is a hash: the logits of a row are a fixed function of the tokens at positions 0 ..
// its own (or of the last few, for a model that repeats itself), as they stand in the cache of its sequence.
// It keeps real kv::Caches and stores each row's token
// in them, so a row at a wrong position, in a wrong cache or after a wrong commit gives other tokens; what
// can be checked directly is.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "base/noise.h"
#include "engine/request.h"
#include "kv/host_pages.h"
#include "sample/sampler.h"
#include "support/best_tokens.h"

namespace slip::engine {

inline model::Config fake_config(int vocab = 40, int max_positions = 4096) {
  model::LayerConfig full{
      .kind = model::LayerKind::kFull, .heads = 1, .kv_heads = 1, .head_dim = 2, .intermediate = 1};
  model::Config config;
  config.vocab = vocab;
  config.hidden = 4;
  config.window = 16;
  config.max_positions = max_positions;
  config.layers = {full};
  return config;
}

/// Beside the full layer a sliding one, which is read where a row sees it.
inline model::Config fake_sliding_config(int window = 100) {
  model::Config config = fake_config();
  config.window = window;
  config.max_positions = 16384;
  config.layers.push_back(config.layers.front());
  config.layers.back().kind = model::LayerKind::kSliding;
  config.layers.back().kv_source = 1;
  return config;
}

/// What the model knows after a token: a hash of the whole history, or of the last `order` tokens (1 or 2).
inline uint64_t fake_next(uint64_t state, int token, int order) {
  if (order == 0) return noise_key(state, static_cast<uint64_t>(token));
  return ((state << 20) | static_cast<uint64_t>(token + 1)) & ((uint64_t{1} << (20 * order)) - 1);
}
inline constexpr uint64_t kFakeStart = 1;

/// The tokens' logits in a state: in [0, 8), different for every state.
inline void fake_logits(uint64_t state, std::span<float> logits) {
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(8 * keyed_uniform(state, i));
}
inline void fake_logits(std::span<const int> history, std::span<float> logits, int order = 0) {
  uint64_t state = kFakeStart;
  for (const int token : history) state = fake_next(state, token, order);
  fake_logits(state, logits);
}

/// The hidden row of a state: 16 bits in each of four floats.
inline void fake_hidden(uint64_t state, float* hidden) {
  for (int i = 0; i < 4; ++i) hidden[i] = static_cast<float>((state >> (16 * i)) & 0xffff);
}
inline uint64_t fake_state(const float* hidden) {
  uint64_t state = 0;
  for (int i = 0; i < 4; ++i) state |= static_cast<uint64_t>(hidden[i]) << (16 * i);
  return state;
}

/// What a backend with lists leaves of a row that asks for its best tokens: the logits are rubbish. Returns
/// 1 if it asked.
inline int fake_list(std::span<float> logits, int wanted, BestTokens& best) {
  best.wanted = wanted;
  if (wanted == 0) return 0;
  best = test::best_tokens(logits, wanted);
  std::fill(logits.begin(), logits.end(), std::numeric_limits<float>::quiet_NaN());
  return 1;
}

class FakeBackend final : public backend::Backend {
 public:
  explicit FakeBackend(int max_rows = 64, model::Config config = fake_config(), int order = 0)
      : order_(order),
        config_(std::move(config)),
        max_rows_(max_rows),
        layout_(config_, kv::Storage::kF32, max_rows),
        classes_(kv::add_classes(pool_, layout_)),
        logits_(static_cast<size_t>(max_rows) * static_cast<size_t>(config_.vocab)),
        best_(static_cast<size_t>(max_rows)),
        hidden_(static_cast<size_t>(max_rows) * 4) {}

  const model::Config& config() const override { return config_; }
  int max_rows() const override { return max_rows_; }
  std::unique_ptr<kv::Cache> new_cache() override {
    if (before_new_cache) before_new_cache();
    return std::make_unique<kv::Cache>(layout_, pool_, classes_);
  }
  size_t streamed_bytes() const override { return 1; }
  size_t resident_bytes() const override { return 1; }
  double measure_read_bandwidth() override { return 1; }
  std::string description() const override { return "fake"; }
  const kv::Layout& kv_layout() const override { return layout_; }
  kv::PagePool& pages() override { return pool_; }

  int order() const { return order_; }
  void set_taps(std::span<const int> layers) override {
    tap_floats_ = layers.size() * 4;
    taps_.resize(static_cast<size_t>(max_rows_) * tap_floats_);
  }

  backend::Output run(const backend::Batch& batch) override {
    if (before_run) before_run(batch);
    check(batch);
    ++steps;
    rows += static_cast<int>(batch.rows.size());
    int outputs = 0;
    for (const backend::Row& row : batch.rows) {
      const kv::Cache& cache = *batch.sequences[static_cast<size_t>(row.sequence)];
      for (int layer = 0; layer < config_.layer_count(); ++layer)
        std::memcpy(kv::HostPages(cache).slot(layer, 0, 0, row.position), &row.token, sizeof(row.token));
      if (row.output) compute(cache, row, outputs++);
    }
    for (size_t i = 0; tap_floats_ > 0 && i < batch.rows.size(); ++i) {
      taps_[i * tap_floats_] = static_cast<float>(batch.rows[i].token);
      taps_[i * tap_floats_ + 1] = static_cast<float>(batch.rows[i].position);
    }
    return {.rows = outputs,
            .logits = outputs > 0 ? logits_.data() : nullptr,
            .best = lists ? best_.data() : nullptr,
            .hidden = outputs > 0 && batch.hidden ? hidden_.data() : nullptr,
            .taps = tap_floats_ > 0 ? taps_.data() : nullptr};
  }

  std::function<void(const backend::Batch&)> before_run;
  std::function<void()> before_new_cache;
  int poison = -1;     // a row with this token yields NaN
  bool lists = false;  // gives those who ask for the best tokens nothing else
  int listed = 0;      // rows that got a list
  int steps = 0;
  int rows = 0;

 private:
  void check(const backend::Batch& batch) {
    ASSERT_FALSE(batch.rows.empty());
    ASSERT_LE(batch.rows.size(), static_cast<size_t>(max_rows_));
    size_t at = 0;
    for (size_t sequence = 0; sequence < batch.sequences.size(); ++sequence) {
      const kv::Cache& cache = *batch.sequences[sequence];
      ASSERT_GE(cache.staged(), 1);
      for (int i = 0; i < cache.staged(); ++i, ++at) {
        ASSERT_LT(at, batch.rows.size());
        ASSERT_EQ(batch.rows[at].sequence, static_cast<int>(sequence));
        ASSERT_EQ(batch.rows[at].position, cache.length() + i);
        ASSERT_TRUE(batch.rows[at].token >= 0 && batch.rows[at].token < config_.vocab);
      }
    }
    ASSERT_EQ(at, batch.rows.size());
  }

  void compute(const kv::Cache& cache, const backend::Row& row, int output) {
    const kv::HostPages pages(cache);
    uint64_t state = kFakeStart;
    for (int position = 0; position <= row.position; ++position) {
      const bool in_window = position > row.position - config_.window;
      const int layer = in_window ? config_.layer_count() - 1 : 0;
      int token;
      std::memcpy(&token, pages.slot(layer, 0, 0, position), sizeof(token));
      state = fake_next(state, token, order_);
    }
    fake_hidden(state, hidden_.data() + output * 4);
    const auto vocab = static_cast<size_t>(config_.vocab);
    const std::span<float> logits(logits_.data() + static_cast<size_t>(output) * vocab, vocab);
    fake_logits(state, logits);
    if (row.token == poison) logits[0] = std::numeric_limits<float>::quiet_NaN();
    if (lists) listed += fake_list(logits, row.candidates, best_[static_cast<size_t>(output)]);
  }

  int order_;
  model::Config config_;
  int max_rows_;
  kv::Layout layout_;
  kv::PagePool pool_{kv::host_memory(), 1};  // slabs of a page, for tests with little memory
  kv::PageClasses classes_;
  std::vector<float> logits_;
  std::vector<BestTokens> best_;
  std::vector<float> hidden_;
  std::vector<float> taps_;
  size_t tap_floats_ = 0;
};

/// Token i as text: one to three letters, so that stop strings cross borders.
inline std::string fake_piece(int token) {
  const char letters[] = {static_cast<char>('a' + token % 5), static_cast<char>('a' + token / 5 % 4),
                          static_cast<char>('a' + token / 20)};
  return std::string(letters, static_cast<size_t>(1 + token % 3));
}

/// Gives out each token's text one token late, as a decoder does that waits for whole characters.
class LateText final : public ReplyStream {
 public:
  void push(int token, std::vector<text::ReplyEvent>& out) override {
    finish(out);
    held_ = fake_piece(token);
  }
  void finish(std::vector<text::ReplyEvent>& out) override {
    if (!held_.empty()) out.push_back({.text = held_});
    held_.clear();
  }

 private:
  std::string held_;
};

/// What a client collects.
struct Collected {
  std::vector<int> tokens;
  std::vector<float> logprobs;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  std::string error;
  Stats stats;
  int deltas_after_the_end = 0;

  std::function<void(const Delta&)> sink() {
    return [this](const Delta& delta) {
      if (finish != FinishReason::kNone) ++deltas_after_the_end;
      if (delta.token >= 0) {
        tokens.push_back(delta.token);
        logprobs.push_back(delta.logprob);
        for (const auto& top : delta.top) logprobs.push_back(top.logprob + static_cast<float>(top.id));
      }
      text += delta.text();
      finish = delta.finish;
      error = delta.error;
      if (delta.stats != nullptr) stats = *delta.stats;
    };
  }
  void expect_equal(const Collected& other) const {
    EXPECT_EQ(tokens, other.tokens);
    EXPECT_EQ(logprobs, other.logprobs);
    EXPECT_EQ(text, other.text);
    EXPECT_EQ(finish, other.finish);
    EXPECT_EQ(deltas_after_the_end, 0);
  }
};

inline std::vector<int> fake_prompt(int length, uint64_t seed, int vocab = 40) {
  std::vector<int> prompt;
  for (int i = 0; i < length; ++i) {
    prompt.push_back(static_cast<int>(keyed_bits(noise_key(seed, 5), static_cast<uint64_t>(i)) %
                                      static_cast<uint64_t>(vocab)));
  }
  return prompt;
}

inline Request fake_request(int prompt_length, int max_tokens, uint64_t seed) {
  Request request;
  request.prompt = fake_prompt(prompt_length, seed);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 1;
  request.sampling.seed = seed;
  request.reply = std::make_unique<LateText>();
  return request;
}

/// The definition of generation: the whole history to the model, one token at a time.
inline std::vector<int> generate_plainly(std::vector<int> history, const sample::Options& options, int count,
                                         int vocab = 40) {
  const size_t prompt_tokens = history.size();
  sample::Sampler sampler(vocab);
  std::vector<float> logits(static_cast<size_t>(vocab));
  std::vector<int> output;
  for (int i = 0; i < count; ++i) {
    fake_logits(history, logits);
    const sample::Context context{
        .history = history, .prompt_tokens = prompt_tokens, .position = std::ssize(history)};
    output.push_back(sampler.sample(logits, context, options).token);
    history.push_back(output.back());
  }
  return output;
}

inline std::string text_of(const std::vector<int>& tokens) {
  std::string text;
  for (const int token : tokens) text += fake_piece(token);
  return text;
}

}  // namespace slip::engine
