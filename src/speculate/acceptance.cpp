#include "speculate/acceptance.h"

#include <algorithm>

namespace slip::speculate {

void estimate(const Acceptance& own, const Acceptance& shared, double first, std::span<double> out) {
  // A few guesses settle what is expected of all sequences. What they taught counts less and less for one
  // that has seen enough itself: a text that nobody can guess must not live on the luck of its neighbours.
  constexpr double kSharedWeight = 2;
  const double own_weight = 4.0 / (1 + own.seen() / 8.0);
  double expected = first;
  for (size_t i = 0; i < out.size(); ++i) {
    expected = shared.at(static_cast<int>(i), expected, kSharedWeight);
    out[i] = std::clamp(own.at(static_cast<int>(i), expected, own_weight), 0.0, 1.0);
  }
}

}  // namespace slip::speculate
