// The best tokens of a row by a full sort: what a backend's list must be.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "base/scores.h"

namespace slip::test {

inline BestTokens best_tokens(std::span<const float> logits, int wanted) {
  BestTokens best;
  best.wanted = wanted;
  std::vector<Candidate> all;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!(logits[id] < std::numeric_limits<float>::infinity())) best.all_finite = 0;
    if (logits[id] > -std::numeric_limits<float>::infinity())
      all.push_back({logits[id], static_cast<int>(id)});
  }
  if (best.all_finite == 0) return best;
  std::sort(all.begin(), all.end(), better);
  best.count = std::min(wanted, static_cast<int>(all.size()));
  std::copy_n(all.begin(), best.count, best.tokens);
  return best;
}

}  // namespace slip::test
