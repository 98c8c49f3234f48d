#include "sample/enough.h"

#include <algorithm>

#include "base/scores.h"

namespace slip::sample {
namespace {

bool only_lowers(const Options& options) {
  const bool biases = std::all_of(options.logit_bias.begin(), options.logit_bias.end(),
                                  [](const LogitBias& bias) { return bias.value <= 0; });
  const bool penalties =
      options.repetition_penalty >= 1 && options.frequency_penalty >= 0 && options.presence_penalty >= 0;
  return biases && (penalties || !options.penalises());
}

}  // namespace

int enough(const Options& options, int64_t history) {
  if (options.top_logprobs >= 0 || !only_lowers(options)) return 0;
  if (!options.greedy() && options.top_k == 0) return 0;
  int64_t count = options.greedy() ? 1 : options.top_k;
  count += static_cast<int64_t>(options.suppressed.size() + options.logit_bias.size());
  if (options.penalises()) {
    count += options.penalty_window < 0 ? history : std::min<int64_t>(history, options.penalty_window);
  }
  return count <= kMostCandidates ? static_cast<int>(count) : 0;
}

}  // namespace slip::sample
