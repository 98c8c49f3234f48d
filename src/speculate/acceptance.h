// Acceptance: how often guesses turn out right, by position in the draft, given that all before them were
// right.
//
// Counted twice: for one sequence with a short memory (texts turn from prose to code within a paragraph), and
// for all sequences together with a long one, which is where a new sequence starts from. Where too little was
// seen, a position is taken to be like the one before it.
#pragma once

#include <array>

#include "speculate/drafter.h"

namespace slip::speculate {

class Acceptance {
 public:
  /// `memory`: how many of the last guesses count, about.
  explicit Acceptance(double memory = 32) : keep_(1 - 1 / memory) {}

  void add(int position, bool accepted) {
    if (position == 0) next_round();
    Tally& tally = tallies_[static_cast<size_t>(position)];
    tally.hits = tally.hits * keep_ + (accepted ? 1 : 0);
    tally.trials = tally.trials * keep_ + 1;
  }
  /// Rounds judged so far.
  int seen() const { return seen_; }
  /// Between the share seen and `otherwise`, which counts like `weight` guesses.
  double at(int position, double otherwise, double weight) const {
    const Tally& tally = tallies_[static_cast<size_t>(position)];
    return (tally.hits + weight * otherwise) / (tally.trials + weight);
  }

 private:
  struct Tally {
    double hits = 0, trials = 0;
  };
  std::array<Tally, kMostDepth> tallies_;
  // Positions that are not reached are forgotten slowly: bad luck there must not keep them out for ever.
  void next_round() {
    ++seen_;
    const double fade = 1 - (1 - keep_) / 4;
    for (Tally& tally : tallies_) tally.hits *= fade, tally.trials *= fade;
  }

  double keep_;
  int seen_ = 0;
};

/// Estimates [0, count) for one sequence into `out`. `first`: what to expect of a first guess before anything
/// was seen.
void estimate(const Acceptance& own, const Acceptance& shared, double first, std::span<double> out);

}  // namespace slip::speculate
