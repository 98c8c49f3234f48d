// From options to what the engine gets, for every command that writes text: how long an answer may be, where
// it stops, how it is sampled. Refuses, before weights are loaded, what the engine would refuse after.
#pragma once

#include <string>
#include <vector>

#include "cli/loaded_model.h"
#include "cli/parser.h"
#include "cli/sampling_options.h"
#include "engine/request.h"

namespace slip::cli {

struct LengthOptions {
  int max_tokens = 0;  // 0 = not given
  int context = 0;     // 0 = what the model was made for

  /// With a context alone the answer may fill it.
  int answer_limit() const;
  int context_of(const model::Config& config) const { return context > 0 ? context : config.max_positions; }
};

inline constexpr int kMostTokens = 1 << 24;

/// Adds -n.
void add_answer_option(Parser& parser, LengthOptions& options);
/// Adds -c.
void add_context_option(Parser& parser, LengthOptions& options);

/// Throws Error(kUsage). `what` is the prompt in the sentence: "the prompt", "line 3: the prompt".
void require_context(const LengthOptions& options, const model::Config& config, size_t prompt_tokens,
                     const std::string& what = "the prompt");

/// Without text and sink.
engine::Request make_request(const LoadedModel& model, const SamplingOptions& sampling,
                             const LengthOptions& lengths, std::vector<int> prompt);

}  // namespace slip::cli
