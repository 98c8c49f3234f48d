#include "cli/flags/length_options.h"

#include "session/generation.h"

namespace slip::cli {

int LengthOptions::answer_limit() const {
  if (max_tokens > 0) return max_tokens;
  return context > 0 ? context : session::kDefaultMaxTokens;
}

void add_answer_option(Parser& parser, LengthOptions& options) {
  parser.integer({"-n,--max-tokens,--n-predict,--predict", "N", "tokens to write at most (default 8192)"}, 1,
                 kMostTokens, options.max_tokens);
}

void add_context_option(Parser& parser, LengthOptions& options) {
  parser.integer(
      {"-c,--context,--ctx-size", "N", "longest prompt plus answer, in tokens (default: what they need)"}, 1,
      kMostTokens, options.context);
}

}  // namespace slip::cli
