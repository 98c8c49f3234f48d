// enough(): how many of the best tokens determine a sample completely, so that a list of them (base/scores.h)
// gives the same token, to the bit, as the logits of the whole vocabulary. 0 = only all logits do.
//
// Why it holds. Greedy reads the largest value, a draw with top_k the k largest: top_p and min_p only drop
// some of those, by sums over those, and noise is a hash of (seed, position, id). So k tokens are enough
// (k = 1 for greedy) as long as values stay as they are. What lowers a value can at most push its token out:
// with n tokens that may be lowered, the k + n best of the raw row hold k tokens that keep their values and
// are better than everything outside the list, lowered or not. Lowering are suppressed ids, biases up to 0, a
// repetition penalty from 1 and other penalties from 0; each of these operations rounds monotonically, so it
// never raises a value. Penalties lower at most as many tokens as their window has.
//
// All logits are needed for: log-probabilities (the sum over all), a draw without top_k, values that may
// rise, and lists longer than kMostCandidates.
#pragma once

#include <cstdint>

#include "sample/options.h"

namespace slip::sample {

/// `history`: tokens before the one sampled. Grows with it until it is 0.
int enough(const Options& options, int64_t history);

}  // namespace slip::sample
