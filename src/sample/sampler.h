// Sampler: token = sample(scores, context, options), a pure function. The object is only scratch memory of
// one vocabulary (about 5 MB), so that a draw allocates nothing; no result depends on earlier calls.
//
// The definition, in this order:
//
// 1. logit_bias is added; suppressed ids, and those the mask forbids, become impossible;
// 2. penalties over the last penalty_window tokens of the history (see options.h);
// 3. greedy: the largest value, lowest id among equals, and nothing else. Otherwise x = (value - max) /
//    temperature;
// 4. top_k keeps the k largest (lower id first among equals); then top_p the shortest prefix of the rest,
//    sorted the same way, whose weight e^x reaches top_p of that rest; then min_p those with x >= ln(min_p);
// 5. the token with the largest x + Gumbel noise, noise a hash of (seed, position, id): a draw from the
//    softmax over what was kept, and the same draw however the position was reached.
//
// Logprobs are the model's own: log-softmax of the raw logits, before all of the above.
//
// Scores are logits of the whole vocabulary, or a list of the best tokens where those suffice (candidates.h):
// the same code then works on a row as short as the list: greedy 0.1 us, top-k 64 with top-p 2, penalties 3.
//
// Cost for 262,144 tokens on one core of an EPYC: greedy 0.04 ms; top-k 64 with top-p 0.05; temperature alone
// 0.38; top-p alone 0.5 (9 on a flat row); penalties add 0.03, logprobs 0.5, a mask 0.05 to 0.15.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/mask.h"
#include "sample/options.h"
#include "sample/scan.h"

namespace slip::sample {

struct TokenLogprob {
  int id = 0;
  float logprob = 0;
};

struct Sampled {
  int token = 0;
  float logprob = 0;                  // 0 when not asked for
  std::span<const TokenLogprob> top;  // the likeliest first; lives in the sampler until its next sample()
};

/// Where in a text a token is sampled.
struct Context {
  std::span<const int> history = {};  // every token before it: the prompt, then the output so far
  size_t prompt_tokens = 0;           // how many of the history are the prompt
  std::span<const int> guesses = {};  // tokens that a drafter takes to follow the history
  int64_t position = 0;               // keys the noise
  const TokenMask* mask = nullptr;    // null = no token is forbidden

  size_t length() const { return history.size() + guesses.size(); }
  int token(size_t at) const { return at < history.size() ? history[at] : guesses[at - history.size()]; }
};

class Sampler {
 public:
  explicit Sampler(int vocab);

  /// `options` has passed validate(). A list must have been asked for with at least candidates_needed() of
  /// this context. Throws Error(kRuntime) when the row holds NaN or +infinity, or leaves no token possible.
  Sampled sample(const Scores& scores, const Context& context, const Options& options);
  Sampled sample(std::span<const float> logits, const Context& context, const Options& options) {
    return sample(Scores{.logits = logits}, context, options);
  }

  /// The log-probabilities of a token that is known already, and the `top` likeliest beside it. Wants all logits.
  Sampled score(std::span<const float> logits, int token, int top);

  int vocab() const { return vocab_; }

 private:
  bool read(std::span<const float> logits, const Context& context, const Options& options);
  bool read(const BestTokens& list, const Context& context, const Options& options);
  float* value_of(int id);
  void adjust(const Context& context, const Options& options);
  void penalise(const Context& context, const Options& options);
  void forbid(const TokenMask& mask);
  int choose(const Options& options, int64_t position);
  void add_logprobs(std::span<const float> logits, int top, Sampled& result);

  const int vocab_;
  Scan scan_;
  Quantum quantum_;
  std::vector<float> adjusted_;        // [vocab] logits after steps 1 and 2, or those of a list
  std::vector<int> listed_;            // [kMostCandidates] the ids of a list, ascending
  int list_size_ = -1;                 // -1 = all logits are there
  std::vector<int> counts_;            // [vocab] 1 + occurrences in the output; all zero between calls
  std::vector<int> seen_;              // ids with a count
  std::vector<Candidate> candidates_;  // [vocab] room for a selection
  std::vector<TokenLogprob> top_;      // [kMaxTopLogprobs]
};

}  // namespace slip::sample
