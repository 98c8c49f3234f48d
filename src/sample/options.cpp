#include "sample/options.h"

#include <cmath>

#include "base/error.h"

namespace slip::sample {
namespace {

// Far beyond any use, close enough that no product or sum with a logit leaves the range of float.
constexpr float kMaxTemperature = 100;
constexpr float kMaxPenalty = 100;
constexpr float kMaxBias = 10000;

// Written so that NaN fails.
void require_within(const char* name, float value, float low, float high) {
  if (!(value >= low && value <= high))
    fail_usage("{} must lie between {} and {}, not {}", name, low, high, value);
}

void require_id(const char* name, int id, int vocab) {
  if (id < 0 || id >= vocab)
    fail_usage("{} names token {}, but the model's ids go from 0 to {}", name, id, vocab - 1);
}

}  // namespace

void validate(const Options& options, int vocab) {
  require_within("temperature", options.temperature, 0, kMaxTemperature);
  if (options.top_k < 0) fail_usage("top_k must be 0 (keep all) or positive, not {}", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    fail_usage("top_p must be above 0 and at most 1 (keep all), not {}", options.top_p);
  }
  require_within("min_p", options.min_p, 0, 1);
  if (!(options.repetition_penalty > 0 && options.repetition_penalty <= kMaxPenalty)) {
    fail_usage("repetition_penalty must be above 0 and at most {} (1 = none), not {}", kMaxPenalty,
               options.repetition_penalty);
  }
  require_within("frequency_penalty", options.frequency_penalty, -kMaxPenalty, kMaxPenalty);
  require_within("presence_penalty", options.presence_penalty, -kMaxPenalty, kMaxPenalty);
  if (options.penalty_window < -1) {
    fail_usage("penalty_window must be -1 (all tokens), 0 (none) or positive, not {}",
               options.penalty_window);
  }
  int previous = -1;
  for (const LogitBias& bias : options.logit_bias) {
    require_id("logit_bias", bias.id, vocab);
    if (bias.id <= previous) {
      fail_usage("logit_bias must list ascending token ids, each once: {} follows {}", bias.id, previous);
    }
    require_within("logit_bias", bias.value, -kMaxBias, kMaxBias);
    previous = bias.id;
  }
  for (const int id : options.suppressed) require_id("the list of suppressed tokens", id, vocab);
  if (options.top_logprobs < -1 || options.top_logprobs > kMaxTopLogprobs) {
    fail_usage("top_logprobs must lie between 0 and {} (-1 = no logprobs), not {}", kMaxTopLogprobs,
               options.top_logprobs);
  }
}

}  // namespace slip::sample
