// The filters of a draw: which tokens stay after top-k, top-p and min-p. Selection without sorting: the cost
// is linear in the tokens that pass a first threshold, which are few unless the distribution is flat.
#pragma once

#include <span>

#include "sample/options.h"
#include "sample/scan.h"

namespace slip::sample {

inline bool filters(const Options& options, int vocab) {
  return (options.top_k > 0 && options.top_k < vocab) || options.top_p < 1 || options.min_p > 0;
}

/// x of the definition in sampler.h; never above 0.
inline double scaled(float value, float max, double inverse_temperature) {
  return (static_cast<double>(value) - max) * inverse_temperature;
}

/// The tokens that stay, in no particular order, in `space` [vocab]. At least the best one does.
std::span<Candidate> keep(Scan& scan, const Options& options, const Quantum& quantum,
                          std::span<Candidate> space);

}  // namespace slip::sample
