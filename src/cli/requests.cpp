#include "cli/requests.h"

#include "base/error.h"

namespace slip::cli {
namespace {

// An answer's length when neither -n nor -c says; far beyond what the models write, and its cache stays
// small.
constexpr int kDefaultAnswer = 8192;

}  // namespace

int LengthOptions::answer_limit() const {
  if (max_tokens > 0) return max_tokens;
  return context > 0 ? context : kDefaultAnswer;
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

void require_context(const LengthOptions& options, const model::Config& config, size_t prompt_tokens,
                     const std::string& what) {
  if (options.context > config.max_positions) {
    fail_usage("--context must be a whole number from 1 to {} for this model, not {}", config.max_positions,
               options.context);
  }
  const int context = options.context_of(config);
  if (prompt_tokens == 0) fail_usage("{} is empty; give at least one token", what);
  if (prompt_tokens >= static_cast<size_t>(context)) {
    fail_usage("{} has {} tokens and the context {}, which leaves no room for an answer; shorten it{}", what,
               prompt_tokens, context, options.context > 0 ? " or raise --context" : "");
  }
}

engine::Request make_request(const LoadedModel& model, const SamplingOptions& sampling,
                             const LengthOptions& lengths, std::vector<int> prompt) {
  engine::Request request;
  request.prompt = std::move(prompt);
  request.sampling = resolve_sampling(sampling, model.checkpoint->generation, model.config().vocab);
  request.max_tokens = lengths.answer_limit();
  request.stop_ids = model.checkpoint->generation.stop_ids;
  return request;
}

}  // namespace slip::cli
