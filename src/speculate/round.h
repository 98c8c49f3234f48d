// One round, for every sequence of the batch at its own depth:
//
//   propose   Speculator::propose: guesses for the tokens that follow
//   verify    one pass of the model over the newest token and the guesses
//   accept    accept() below: sample from each row in order, as if the rows had come one by one, and go on as
//             long as the next row's token is the one picked
//   commit    the cache keeps the rows whose tokens stand; the others are overwritten by the next pass
//
// Verification is sampling: there is no other rule, so it holds for every option of the sampler, and a round
// without guesses is plain decoding. Each round commits at least one token.
#pragma once

#include <span>

namespace slip::speculate {

/// What became of the guesses of one round.
struct Outcome {
  int accepted = 0;   // the sampler picked them
  int judged = 0;     // accepted, and the first wrong one
  int kept_rows = 0;  // guesses whose rows belong into the cache: not the one that ended the text
};

/// Walks the output rows of one sequence: row 0 follows the tokens known, row i + 1 follows guess i.
/// `pick(i)` samples from row i with all tokens taken so far as its history; `on_token(token, i, accepted)`
/// appends it, and returns false when the text ends there.
template <typename Pick, typename OnToken>
Outcome accept(int rows, std::span<const int> guesses, Pick&& pick, OnToken&& on_token) {
  Outcome outcome;
  for (int i = 0; i < rows; ++i) {
    const auto sampled = pick(i);
    const bool guessed = i + 1 < rows;
    const bool right = guessed && guesses[static_cast<size_t>(i)] == sampled.token;
    outcome.judged += guessed ? 1 : 0;
    outcome.accepted += right ? 1 : 0;
    if (!on_token(sampled, i, right) || !right) break;
    ++outcome.kept_rows;
  }
  return outcome;
}

}  // namespace slip::speculate
