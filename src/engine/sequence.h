// Sequence: one request on its way. It holds the tokens so far (prompt and output), the cache of those
// already computed, and what turns tokens into text.
//
// Everything follows from two numbers. Tokens that are not in the cache yet are `known`: the rest of a
// prompt, or the one token sampled last. A step takes some of them as rows, and then perhaps drafts, guesses
// of what follows. The row of the last known token and the rows of drafts want output. consume() accepts from
// these outputs in order (speculate/round.h), and ends the text where plain decoding would. So prompts,
// decoding and verification are one path, and without drafts it is plain decoding.
//
// Invariant between steps: the cache holds tokens [0, length) and length < tokens. Pages come and go: a sequence
// that is put aside keeps its tokens, and comes back by reading them again. Nothing else allocates after admit().
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/batch.h"
#include "engine/reply_text.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "kv/cache.h"
#include "kv/prefix_cache.h"
#include "sample/sampler.h"
#include "speculate/speculator.h"

namespace slip::engine {

/// Of the step a sequence takes part in.
struct StepTimes {
  double draft_s = 0;
  double pass_s = 0;
  double plain_s = 0;  // of a plain pass over as many sequences; 0 = unknown, or somebody reads a prompt
};

class Sequence {
 public:
  struct Limits {
    int context = 0;  // the most tokens, prompt and output together
    int vocab = 0;
  };
  /// The engine has checked the request.
  Sequence(uint64_t id, Request request, const Limits& limits);

  uint64_t id() const { return id_; }
  /// Gets its cache, an empty one, and takes all memory it will need but pages. Throws Error(kOutOfMemory).
  void admit(std::unique_ptr<kv::Cache> cache);
  bool admitted() const { return cache_ != nullptr; }
  kv::Cache* cache() const { return cache_.get(); }
  /// Gives its pages back; it will have to be read again.
  void put_aside();
  /// Begins, or begins again, with what a prefix cache gave its cache.
  void resume(const kv::Match& match);
  bool aside() const { return aside_; }
  /// The pool has no pages for it and never will have: ends it.
  void end_for_lack_of_room();

  /// What its prompt shows has been encoded. Throws what went wrong there.
  bool ready() const;
  Need need() const;
  /// The most rows, up to so many, that end at no place where rows must stay together. Of known tokens.
  int fit(int rows) const;
  /// Its prompt is read, and one token is to follow the others.
  bool decoding() const { return sampled_ > 0 && known() == 1; }
  /// Somebody may guess for it.
  bool guessable() const { return decoding() && request_.draft; }
  /// Guesses of the tokens to follow, for the next step only; cut to `most` and to what could still be kept.
  /// Returns how many are left.
  int propose(const speculate::Guesses& guesses, int most = speculate::kMostDepth);
  /// Why they are as they are, for the statistics.
  void explain(const speculate::Decision& decision);
  /// Stages `count` rows and appends them to `rows`, as sequence `index` of the batch. Returns how many want
  /// output.
  int add_rows(int count, int index, std::vector<backend::Row>& rows);
  /// Takes the results of the rows staged, `outputs` of them from row `first` of the output on. Samples,
  /// commits, emits.
  speculate::Outcome consume(const backend::Output& output, int first, int outputs, sample::Sampler& sampler,
                             const StepTimes& times = {});

  /// Ends the request now, with what text it has.
  void finish(FinishReason reason, std::string_view error = {}, ErrorKind kind = ErrorKind::kRuntime);
  /// Ends it with kError.
  void fail(const std::exception& error);
  bool finished() const { return finished_; }

  /// As drafters see it, from admit() on.
  const speculate::SequenceView& view() const { return view_; }
  /// What it brings to a prefix cache, and how much of that it may take from there: the last token is computed, and all
  /// whose log-probabilities are wanted.
  kv::PrefixQuery prefix_query() const;
  /// Where it stands there. Ended before its cache is.
  kv::PrefixCache::Chain chain;
  std::span<const int> boundaries() const { return request_.boundaries; }
  size_t prompt_tokens() const { return prompt_tokens_; }
  bool reading() const { return cache_ != nullptr && known() > 1; }

  /// Prompt and output so far.
  std::span<const int> tokens() const { return tokens_; }
  const Stats& stats() const { return stats_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// Tokens that are not in the cache yet.
  int known() const { return static_cast<int>(tokens_.size()) - cache_->length(); }
  bool wants_output(int position) const;
  bool wants_score(int position) const;
  /// The media that a position belongs to; null = none.
  const MediaSpan* media_at(int position) const;
  void add_text_row(int position, int index, std::vector<backend::Row>& rows) const;
  /// What may be picked as the token at `position`; null = everything.
  const sample::TokenMask* mask_at(size_t position) const;
  /// Log-probabilities of the prompt's tokens, from the outputs of the rows before them; returns how many of
  /// `outputs` these were.
  int score_prompt(const backend::Output& output, int first, int outputs, sample::Sampler& sampler);
  void begin_round(int outputs, const StepTimes& times);
  void add_token(const sample::Sampled& sampled, int guess, bool right);
  bool is_stop_id(int token) const;
  FinishReason reason_to_stop() const;
  void emit(Delta delta);
  void count_time();

  const uint64_t id_;
  Request request_;
  const int context_;
  const int most_tokens_;
  const size_t prompt_tokens_;
  std::vector<int> tokens_;
  std::vector<kv::MediaSpan> media_;  // as a prefix cache knows them
  std::vector<int> drafts_;
  speculate::Guesses guesses_;  // whose drafts they are
  speculate::SequenceView view_;
  StepTimes times_;
  std::unique_ptr<kv::Cache> cache_;
  ReplyText text_;
  std::optional<sample::TokenMask>
      no_stop_;            // everything but stop ids, while there are fewer than min_tokens
  int sampled_ = 0;        // tokens, the stop id too
  bool in_round_ = false;  // the rows staged are those of a sequence that decodes
  size_t scored_ = 0;      // tokens of the prompt whose log-probabilities are out
  bool finished_ = false;
  bool aside_ = false;
  Stats stats_;
  Clock::time_point submitted_ = Clock::now();
  Clock::time_point admitted_, first_token_;
};

}  // namespace slip::engine
