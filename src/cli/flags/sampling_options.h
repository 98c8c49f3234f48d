// The options that steer sampling, shared by every command that writes text. What the user leaves out comes
// from the checkpoint (session/generation.h).
#pragma once

#include <string>
#include <vector>

#include "cli/flags/parser.h"
#include "session/generation.h"

namespace slip::cli {

/// Adds the "Sampling" group.
void add_sampling_options(Parser& parser, session::SamplingChoice& options);

/// "ID=VALUE", several with commas between them; the last word on an id counts, also on one that is there already.
void add_logit_bias(const std::string& text, std::vector<sample::LogitBias>& biases);

}  // namespace slip::cli
