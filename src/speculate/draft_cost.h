// DraftCosts: what the drafters' work costs, by their kind: a step of a network for each guess, one pass for
// all of them, or nothing. Learnt from measurements; until then a share of a plain pass.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "speculate/cost.h"
#include "speculate/drafter.h"

namespace slip::speculate {

/// What the drafters have to do for the guesses planned so far.
struct DraftWork {
  std::array<std::array<int, kMostDepth>, kMostDrafters> rows_at{};  // sequences that take step i
  std::array<int, kMostDrafters> block_rows{};
  double seconds = 0;
};

/// `plain`: seconds of a plain pass of the batch.
class DraftCosts {
 public:
  /// One effort per drafter.
  explicit DraftCosts(std::span<const Effort> efforts);

  Effort effort(int drafter) const { return efforts_[static_cast<size_t>(drafter)]; }
  void measured(int drafter, int sequences, int steps, int rows, double seconds);

  /// One more guess of a sequence, its `depth`-th.
  void add(DraftWork& work, int drafter, int depth, double plain) const;
  /// A sequence's share of so many guesses, if all of the batch draft like it.
  double share(int drafter, int sequences, int guesses, double plain) const;

 private:
  double seconds(int drafter, int rows, double plain) const;

  std::vector<Effort> efforts_;
  std::array<CostCurve, kMostDrafters> curves_;  // of a step, or of a block, by rows
};

}  // namespace slip::speculate
