#include "sample/candidates.h"

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

int64_t penalised(const Options& options, int64_t history, int64_t prompt_tokens) {
  if (!options.penalises()) return 0;
  const int64_t seen = options.penalises_prompt() ? history : history - prompt_tokens;
  return options.penalty_window < 0 ? seen : std::min<int64_t>(seen, options.penalty_window);
}

}  // namespace

int candidates_needed(const Options& options, int64_t history, int64_t prompt_tokens, const TokenMask* mask) {
  if (options.top_logprobs >= 0 || !only_lowers(options)) return 0;
  if (!options.greedy() && options.top_k == 0) return 0;
  int64_t count = options.greedy() ? 1 : options.top_k;
  count += static_cast<int64_t>(options.suppressed.size() + options.logit_bias.size());
  count += penalised(options, history, prompt_tokens);
  if (mask != nullptr && count <= kMostCandidates) count += mask->forbidden();
  return count <= kMostCandidates ? static_cast<int>(count) : 0;
}

}  // namespace slip::sample
