// candidates_needed(): how many of the best tokens determine a sample completely, so that a list of them
// (base/scores.h) gives the same token, to the bit, as the logits of the whole vocabulary. 0 = only all
// logits do.
//
// Why it holds. Greedy reads the largest value, a draw with top_k the k largest: top_p and min_p only drop
// some of those, by sums over those, and noise is a hash of (seed, position, id). So k tokens are enough
// (k = 1 for greedy) as long as values stay as they are. What lowers a value can at most push its token out:
// with n tokens that may be lowered, the k + n best of the raw row hold k tokens that keep their values and
// are better than everything outside the list, lowered or not. These lower values:
//
// - suppressed ids, and tokens that a mask forbids: to -infinity;
// - biases up to 0;
// - a repetition penalty from 1, on at most as many tokens as its window of prompt and output has;
// - presence and frequency penalties from 0, on at most as many as the window has of the output.
//
// Each of these operations rounds monotonically, so it never raises a value.
//
// All logits are needed for: log-probabilities (the sum over all), a draw without top_k, values that may
// rise, and lists longer than kMostCandidates. Most masks forbid more tokens than that.
#pragma once

#include <cstdint>

#include "sample/mask.h"
#include "sample/options.h"

namespace slip::sample {

/// `history`: tokens before the one sampled, `prompt_tokens` of them the prompt; `mask`: null = none. What is
/// needed grows with the history until it is 0.
int candidates_needed(const Options& options, int64_t history, int64_t prompt_tokens,
                      const TokenMask* mask = nullptr);

}  // namespace slip::sample
