// Request: what a client asks of the engine, and Delta: what comes back, one per token. The engine knows
// tokens; text comes from a TextStream the client brings, so that nothing here depends on a tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sample/options.h"
#include "sample/sampler.h"
#include "speculate/statistics.h"

namespace slip::engine {

enum class FinishReason {
  kNone,        // more to come
  kStopId,      // the model wrote one of stop_ids
  kStopString,  // the text reached one of stop_strings
  kMaxTokens,
  kContext,  // prompt and output fill the context
  kCancelled,
  kError,
};
const char* name_of(FinishReason reason);

/// Turns the ids of one sequence into text, as far as it is certain (never half a character).
class TextStream {
 public:
  virtual ~TextStream() = default;
  /// Appends to `out` the text that has become certain with this token.
  virtual void push(int token, std::string& out) = 0;
  /// Appends what is left when no more tokens follow.
  virtual void finish(std::string& out) = 0;
};

/// Seconds by the steady clock. Sampled tokens count as output, the stop id too.
struct Stats {
  int prompt_tokens = 0;
  int output_tokens = 0;
  double queued_s = 0;       // from submit() to admission
  double first_token_s = 0;  // from submit() to the first token: what a person waits
  double prompt_s = 0;       // from admission to the first token
  double decode_s = 0;       // from the first token to the last: output_tokens - 1 of them
  speculate::Statistics speculation;
};

/// One token, or the end without one. Views are valid during the call only.
struct Delta {
  uint64_t request = 0;
  int token = -1;              // -1 when the request ends without a new token (cancelled, error)
  std::string_view text = {};  // may lag behind the token: text that could begin a stop string is held back
  float logprob = 0;           // and `top`: as sampling.top_logprobs asks
  std::span<const sample::TokenLogprob> top = {};
  FinishReason finish = FinishReason::kNone;  // set in the last delta of a request, and only there
  std::string_view error = {};                // a sentence, with kError
  ErrorKind error_kind = ErrorKind::kRuntime;
  const Stats* stats = nullptr;  // with the last delta

  // How it came about; the token is the model's own choice in any case.
  const char* drafter = nullptr;       // who had guessed this token; null = nobody
  std::span<const int> rejected = {};  // guesses in the place of this token and after it that were wrong
  bool drafted() const { return drafter != nullptr; }
};

struct Request {
  std::vector<int> prompt;
  sample::Options sampling;
  int max_tokens = 256;
  std::vector<int> stop_ids;              // end the output and are not part of its text
  std::vector<std::string> stop_strings;  // likewise; need `text`
  std::unique_ptr<TextStream> text;       // null: tokens only
  /// Called on the thread that calls step(), for every delta in order. Must not throw; may call submit() and
  /// cancel().
  std::function<void(const Delta&)> sink;
};

}  // namespace slip::engine
