// Options: everything a request may ask of the sampler. With the logits and the context (sampler.h) they
// determine the token completely; there is no other state. Defaults: greedy, nothing filtered, nothing
// penalised, no logprobs.
#pragma once

#include <cstdint>
#include <vector>

namespace slip::sample {

// As many alternatives as the OpenAI interface knows.
inline constexpr int kMaxTopLogprobs = 20;
// Below this a division by the temperature only amplifies rounding; it is treated as 0 (greedy).
inline constexpr float kGreedyBelow = 1e-5f;

struct LogitBias {
  int id = 0;
  float value = 0;
};

struct Options {
  float temperature = 0;  // 0 = greedy
  int top_k = 0;          // keep the k likeliest; 0 = all
  float top_p = 1;  // keep the shortest list of likeliest tokens that holds this much probability; 1 = all
  float min_p = 0;  // keep tokens at least this likely relative to the likeliest; 0 = all

  // Penalties look at the last `penalty_window` tokens before the one sampled; -1 = at all of them, 0 = at
  // none. In this order: repetition divides a positive logit and multiplies a negative one, once however
  // often the token occurred in prompt or output; frequency subtracts its value per occurrence in the output;
  // presence subtracts it once from what occurred in the output. So do OpenAI, vLLM and Hugging Face: a
  // prompt must not make its own words unlikely, only a loop must end.
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  int penalty_window = -1;

  std::vector<LogitBias> logit_bias = {};  // ascending ids, each once
  std::vector<int> suppressed = {};        // never sampled; wins over a bias
  std::vector<int> placeholders = {};  // stand for pictures and sounds: no text, so penalties pass them over

  uint64_t seed = 0;
  int top_logprobs = -1;  // -1 = no logprobs, 0 = of the chosen token, n = of the n likeliest as well

  bool greedy() const { return temperature < kGreedyBelow; }
  bool penalises() const {
    return penalty_window != 0 &&
           (repetition_penalty != 1 || frequency_penalty != 0 || presence_penalty != 0);
  }
  bool penalises_prompt() const { return penalty_window != 0 && repetition_penalty != 1; }
  bool adjusts() const { return !logit_bias.empty() || !suppressed.empty() || penalises(); }
};

/// Throws Error(kUsage) with a sentence that names the option when one is out of range for this vocabulary.
void validate(const Options& options, int vocab);

}  // namespace slip::sample
