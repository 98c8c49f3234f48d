#include "speculate/draft_cost.h"

#include "base/check.h"

namespace slip::speculate {
namespace {

// Until measured. Hopeful, so that everybody is tried.
constexpr double kShareOfPlain = 0.1;

}  // namespace

DraftCosts::DraftCosts(std::span<const Effort> efforts) : efforts_(efforts.begin(), efforts.end()) {
  SLIP_CHECK(efforts.size() <= kMostDrafters);
}

void DraftCosts::measured(int drafter, int sequences, int steps, int rows, double seconds) {
  if (steps < 1) return;
  CostCurve& cost = curves_[static_cast<size_t>(drafter)];
  if (effort(drafter) == Effort::kBlock) {
    cost.add(rows + sequences, seconds);
  } else {
    cost.add((rows + steps - 1) / steps, seconds / steps);
  }
}

double DraftCosts::seconds(int drafter, int rows, double plain) const {
  const CostCurve& cost = curves_[static_cast<size_t>(drafter)];
  return cost.measured() ? cost.at(rows) : kShareOfPlain * plain;
}

void DraftCosts::add(DraftWork& work, int drafter, int depth, double plain) const {
  const auto which = static_cast<size_t>(drafter);
  if (effort(drafter) == Effort::kLookup) return;
  const bool steps = effort(drafter) == Effort::kSteps;
  int& rows = steps ? work.rows_at[which][static_cast<size_t>(depth)] : work.block_rows[which];
  if (rows > 0) work.seconds -= seconds(drafter, rows, plain);
  rows += !steps && depth == 0 ? 2 : 1;  // the anchor of a block comes with its first guess
  work.seconds += seconds(drafter, rows, plain);
}

double DraftCosts::share(int drafter, int sequences, int guesses, double plain) const {
  switch (effort(drafter)) {
    case Effort::kLookup: return 0;
    case Effort::kSteps: return guesses * seconds(drafter, sequences, plain) / sequences;
    case Effort::kBlock: return seconds(drafter, sequences * (guesses + 1), plain) / sequences;
  }
  return 0;
}

}  // namespace slip::speculate
