// Draft networks for FakeBackend: they know its model, and lie about as many of its states as told. They
// check what they are given: an assistant must get the hidden state, keys and position of the sequence it
// drafts for, a block drafter a context without gaps.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/fake_backend.h"
#include "speculate/dflash.h"
#include "speculate/mtp.h"
#include "speculate/speculator.h"
#include "speculate/suffix.h"

namespace slip::engine {

/// Whether a network that is right with this probability is, in this state.
inline bool fake_right(uint64_t state, double share) {
  return keyed_uniform(noise_key(state, 7), 0) < share;
}

class FakeAssistant final : public backend::Assistant {
 public:
  FakeAssistant(const FakeBackend& target, double right, int max_rows = 16)
      : order_(target.order()), right_(right), max_rows_(max_rows) {
    config_.text = target.config();
    config_.backbone_hidden = target.config().hidden;
    logits_.resize(static_cast<size_t>(max_rows) * static_cast<size_t>(config_.text.vocab));
    hidden_.resize(static_cast<size_t>(max_rows) * 4);
    states_.resize(static_cast<size_t>(max_rows));
    best_.resize(static_cast<size_t>(max_rows));
  }

  const model::AssistantConfig& config() const override { return config_; }
  int max_rows() const override { return max_rows_; }
  size_t streamed_bytes() const override { return 1; }
  size_t resident_bytes() const override { return 1; }

  backend::Output step(std::span<const backend::AssistantRow> rows) override {
    ++steps;
    if (fail_at == steps) fail(ErrorKind::kRuntime, "the assistant lost its mind");
    EXPECT_LE(rows.size(), static_cast<size_t>(max_rows_));
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].keys, rows[i].cache->length());
      EXPECT_EQ(rows[i].position, rows[i].keys - (own_position ? 0 : 1));
      states_[i] = fake_next(fake_state(rows[i].hidden), rows[i].token, order_);
    }
    const auto vocab = static_cast<size_t>(config_.text.vocab);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::span<float> logits(logits_.data() + i * vocab, vocab);
      fake_logits(states_[i], logits);
      if (!fake_right(states_[i], right_)) std::rotate(logits.begin(), logits.begin() + 1, logits.end());
      fake_hidden(states_[i], hidden_.data() + i * 4);
      if (lists) listed += fake_list(logits, rows[i].candidates, best_[i]);
    }
    return {.rows = static_cast<int>(rows.size()),
            .logits = logits_.data(),
            .best = lists ? best_.data() : nullptr,
            .hidden = hidden_.data()};
  }

  // Goes on with the likeliest token, which is not always the one drawn, and of every `astray`-th step with
  // some other.
  std::span<const backend::Output> chain(std::span<const backend::AssistantRow> rows, int depth) override {
    ++chains;
    chained_.clear();
    const bool ruled = std::all_of(rows.begin(), rows.end(), [](const backend::AssistantRow& row) {
      return row.candidates > 0 && row.draw != nullptr;
    });
    if (!ruled || most_chain <= 1) return Assistant::chain(rows, depth);
    std::vector<backend::AssistantRow> now(rows.begin(), rows.end());
    chain_best_.resize(static_cast<size_t>(most_chain));
    chain_hidden_.resize(static_cast<size_t>(most_chain));
    for (size_t s = 0; s < static_cast<size_t>(std::min(depth, most_chain)); ++s) {
      step(now);
      for (size_t i = 0; i < rows.size(); ++i) {
        best_[i].next = best_[i].tokens[0].id;
        if (astray > 0 && ++gone_ % astray == 0) best_[i].next = (best_[i].next + 1) % config_.text.vocab;
        now[i].token = best_[i].next;
      }
      chain_best_[s] = best_;
      chain_hidden_[s] = hidden_;
      for (size_t i = 0; i < rows.size(); ++i) now[i].hidden = chain_hidden_[s].data() + i * 4;
      chained_.push_back({.rows = static_cast<int>(rows.size()), .best = chain_best_[s].data()});
    }
    return chained_;
  }
  const float* hidden_after(size_t step, size_t row) override {
    return chained_.empty() ? Assistant::hidden_after(step, row) : chain_hidden_[step].data() + row * 4;
  }

  int steps = 0, chains = 0;
  int most_chain = 1, astray = 0;  // with `lists`
  int fail_at = -1;
  bool own_position = false;
  bool lists = false;  // as of FakeBackend
  int listed = 0;

 private:
  model::AssistantConfig config_;
  int order_;
  double right_;
  int max_rows_;
  std::vector<float> logits_, hidden_;
  std::vector<BestTokens> best_;
  std::vector<uint64_t> states_;
  std::vector<backend::Output> chained_;  // empty = the last chain was a step
  std::vector<std::vector<BestTokens>> chain_best_;
  std::vector<std::vector<float>> chain_hidden_;
  int gone_ = 0;
};

/// Guesses what greedy decoding would write.
class FakeBlockDrafter final : public backend::BlockDrafter {
 public:
  FakeBlockDrafter(FakeBackend& target, double right, int block = 8, int max_rows = 32)
      : order_(target.order()),
        right_(right),
        max_rows_(max_rows),
        layout_(target.config(), kv::Storage::kF32, max_rows),
        pool_(target.pages()),
        classes_(kv::add_classes(pool_, layout_)) {
    config_.text = target.config();
    config_.block = block;
    config_.taps = {0, 0};
    logits_.resize(static_cast<size_t>(max_rows) * static_cast<size_t>(config_.text.vocab));
    best_.resize(static_cast<size_t>(max_rows));
  }

  const model::DflashConfig& config() const override { return config_; }
  int max_rows() const override { return max_rows_; }
  const kv::Layout& kv_layout() const override { return layout_; }
  std::unique_ptr<kv::Cache> new_cache() override {
    return std::make_unique<kv::Cache>(layout_, pool_, classes_);
  }
  size_t streamed_bytes() const override { return 1; }
  size_t resident_bytes() const override { return 1; }

  void extend(std::span<const backend::ContextRows> contexts) override {
    ++extends;
    int total = 0;
    for (const backend::ContextRows& rows : contexts) {
      total += rows.count;
      rows.cache->stage(rows.count);
      for (int i = 0; i < rows.count; ++i) {
        const float* taps = rows.taps + i * 8;
        const int position = rows.cache->length() + i, token = static_cast<int>(taps[0]);
        EXPECT_EQ(position, static_cast<int>(taps[1]));
        std::memcpy(kv::HostPages(*rows.cache).slot(0, 0, 0, position), &token, sizeof(token));
      }
      rows.cache->commit(rows.count);
    }
    EXPECT_LE(total, max_rows_);
  }

  backend::Output run(std::span<const backend::Block> blocks) override {
    ++runs;
    const auto vocab = static_cast<size_t>(config_.text.vocab);
    int total = 0, out = 0;
    for (const backend::Block& block : blocks) {
      EXPECT_TRUE(block.rows >= 2 && block.rows <= config_.block);
      total += block.rows;
      uint64_t state = kFakeStart;
      for (int position = 0; position < block.cache->length(); ++position) {
        int token;
        std::memcpy(&token, kv::HostPages(*block.cache).slot(0, 0, 0, position), sizeof(token));
        state = fake_next(state, token, order_);
      }
      state = fake_next(state, block.anchor, order_);
      for (int i = 1; i < block.rows; ++i, ++out) {
        const std::span<float> logits(logits_.data() + static_cast<size_t>(out) * vocab, vocab);
        fake_logits(state, logits);
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        if (!fake_right(state, right_)) std::rotate(logits.begin(), logits.begin() + 1, logits.end());
        state = fake_next(state, static_cast<int>(best), order_);
        if (lists) listed += fake_list(logits, block.candidates, best_[static_cast<size_t>(out)]);
      }
    }
    EXPECT_LE(total, max_rows_);
    return {.rows = out, .logits = logits_.data(), .best = lists ? best_.data() : nullptr};
  }

  int runs = 0;
  int extends = 0;
  bool lists = false;  // as of FakeBackend
  int listed = 0;

 private:
  model::DflashConfig config_;
  int order_;
  double right_;
  int max_rows_;
  kv::Layout layout_;
  kv::PagePool& pool_;
  const kv::PageClasses classes_;
  std::vector<float> logits_;
  std::vector<BestTokens> best_;
};

/// A drafter that is a function: (text, depth) -> guesses.
class ScriptedDrafter final : public speculate::Drafter {
 public:
  using Script = std::function<std::vector<int>(std::span<const int> tokens, int depth)>;
  explicit ScriptedDrafter(Script script, speculate::Effort effort = speculate::Effort::kSteps)
      : script_(std::move(script)), effort_(effort) {}

  const char* name() const override { return "scripted"; }
  speculate::Effort effort() const override { return effort_; }
  int most_drafts() const override { return speculate::kMostDepth; }
  void begin(const speculate::SequenceView&) override {}
  void propose(std::span<speculate::Proposal> proposals) override {
    for (speculate::Proposal& proposal : proposals) {
      proposal.drafts = script_(proposal.view->tokens, proposal.depth);
      proposal.match = 20;
    }
  }
  void committed(const speculate::SequenceView&, const speculate::Pass&) override {}
  void settled(uint64_t) override {}

 private:
  Script script_;
  speculate::Effort effort_;
};

template <typename... Drafters>
std::unique_ptr<speculate::Speculator> fake_speculator(int vocab, const speculate::DepthOptions& options,
                                                       std::unique_ptr<Drafters>... drafters) {
  std::vector<std::unique_ptr<speculate::Drafter>> all;
  (all.push_back(std::move(drafters)), ...);
  return std::make_unique<speculate::Speculator>(std::move(all), vocab, options);
}

}  // namespace slip::engine
