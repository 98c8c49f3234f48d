// The options that steer sampling, shared by every command that writes text. What the user leaves out comes
// from the checkpoint's generation_config.json, and what that leaves out is neutral.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "cli/parser.h"
#include "sample/options.h"

namespace slip::cli {

struct SamplingOptions {
  std::optional<float> temperature;
  std::optional<int> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repeat_penalty;
  std::optional<float> presence_penalty;
  std::optional<float> frequency_penalty;
  std::optional<int> penalty_window;
  std::vector<std::string> logit_bias;  // "ID=VALUE"
  std::optional<uint64_t> seed;
  std::optional<int> logprobs;
};

/// Adds the "Sampling" group.
void add_sampling_options(Parser& parser, SamplingOptions& options);

/// What the sampler gets. Without a seed a new one is drawn. Throws Error(kUsage) for a malformed or
/// impossible bias.
sample::Options resolve_sampling(const SamplingOptions& options, const checkpoint::GenerationConfig& defaults,
                                 int vocab);

/// "ID=VALUE", comma-separated or one per flag, into ascending ids; the last word on an id counts.
std::vector<sample::LogitBias> parse_logit_bias(const std::vector<std::string>& texts, int vocab);

}  // namespace slip::cli
