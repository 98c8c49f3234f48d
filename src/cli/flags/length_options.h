// How long an answer and its context may be, shared by every command that writes text.
#pragma once

#include "cli/flags/parser.h"

namespace slip::cli {

struct LengthOptions {
  int max_tokens = 0;  // 0 = not given
  int context = 0;     // 0 = what the model was made for

  /// With a context alone the answer may fill it.
  int answer_limit() const;
};

inline constexpr int kMostTokens = 1 << 24;

/// Adds -n.
void add_answer_option(Parser& parser, LengthOptions& options);
/// Adds -c.
void add_context_option(Parser& parser, LengthOptions& options);

}  // namespace slip::cli
