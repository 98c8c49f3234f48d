// Sequence: one request on its way. It holds the tokens so far (prompt and output), the cache of those
// already computed, and what turns tokens into text.
//
// Everything follows from two numbers. Tokens that are not in the cache yet are `known`: the rest of a
// prompt, or the one token sampled last. A step takes some of them as rows, and then perhaps drafts, guesses
// of what follows. The row of the last known token and the rows of drafts want output. consume() samples from
// these outputs in order, as if the rows had come one by one, and goes on as long as the next row is a draft
// that equals the sampled token. So prompts, decoding and verification are one path, and without drafts it is
// plain decoding.
//
// Invariant between steps: the cache holds tokens [0, length) and length < tokens. Nothing allocates after
// admit().
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/batch.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/stop_matcher.h"
#include "kv/cache.h"
#include "sample/sampler.h"

namespace slip::engine {

class Sequence {
 public:
  /// The engine has checked the request. `context`: the most tokens, prompt and output together.
  Sequence(uint64_t id, Request request, int context);

  uint64_t id() const { return id_; }
  /// The most tokens it can have: what its cache must hold.
  int most_tokens() const { return most_tokens_; }

  /// Gets its cache and takes all memory it will need. Throws Error(kOutOfMemory).
  void admit(std::unique_ptr<kv::Cache> cache);
  kv::Cache* cache() const { return cache_.get(); }

  Need need() const;
  /// Guesses of the tokens to follow, for the next step only; cut to what could still be kept.
  void propose(std::span<const int> drafts);
  /// Stages `count` rows and appends them to `rows`, as sequence `index` of the batch. Returns how many want
  /// output.
  int add_rows(int count, int index, std::vector<backend::Row>& rows);
  /// Takes the results of the rows staged: `logits` [outputs, vocab]. Samples, commits, emits.
  void consume(const float* logits, int outputs, sample::Sampler& sampler);

  /// Ends the request now, with what text it has.
  void finish(FinishReason reason, std::string_view error = {});
  bool finished() const { return finished_; }

  /// Prompt and output so far.
  std::span<const int> tokens() const { return tokens_; }
  const Stats& stats() const { return stats_; }

 private:
  using Clock = std::chrono::steady_clock;

  void accept(const sample::Sampled& sampled);
  FinishReason reason_to_stop(int token) const;
  void close_text();
  void emit(Delta delta);
  void count_token();

  const uint64_t id_;
  Request request_;
  const int context_;
  const int most_tokens_;
  std::vector<int> tokens_;
  std::vector<int> drafts_;
  std::unique_ptr<kv::Cache> cache_;
  StopMatcher matcher_;
  std::string piece_;  // text of one token
  std::string text_;   // text of one delta
  bool finished_ = false;
  Stats stats_;
  Clock::time_point submitted_ = Clock::now();
  Clock::time_point admitted_, first_token_;
};

}  // namespace slip::engine
