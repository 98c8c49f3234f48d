// Request: what a client asks of the engine, and Delta: what comes back, one per token. The engine knows
// tokens; what they say comes from a ReplyStream that the client brings, so nothing here needs a tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/soft_rows.h"
#include "base/error.h"
#include "engine/stats.h"
#include "kv/page_key.h"
#include "sample/options.h"
#include "sample/sampler.h"
#include "text/reply_event.h"

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

/// Turns the ids of one sequence into a reply told apart, as far as it is certain (never half a character).
class ReplyStream {
 public:
  virtual ~ReplyStream() = default;
  /// Appends to `out` what has become certain with this token, in the order the model wrote it.
  virtual void push(int token, std::vector<text::ReplyEvent>& out) = 0;
  /// Appends what is left when no more tokens follow.
  virtual void finish(std::vector<text::ReplyEvent>& out) = 0;
  /// Where the text of the last token lands.
  virtual text::Place place() const { return text::Place::kText; }
};

/// Where a token's text landed. A place's bytes, added up over all deltas, are its text.
struct Landing {
  text::Place place = text::Place::kNone;
  int call = -1;  // which tool call, from 0, with Place::kToolCall
  int bytes = 0;  // that came out there with this token; of a call always 0
};

/// One token, or the end without one. Views are valid during the call only.
struct Delta {
  uint64_t request = 0;
  int choice = 0;  // Request::choice
  int token = -1;  // -1 when the request ends without a new token (cancelled, error)
  // What has become certain with it, in order. May lag behind the token: text that could begin a stop string is
  // held back, and so is half a character.
  std::span<const text::ReplyEvent> events = {};
  Landing landing = {};
  float logprob = 0;  // and `top`: as sampling.top_logprobs asks
  std::span<const sample::TokenLogprob> top = {};
  FinishReason finish = FinishReason::kNone;  // set in the last delta of a request, and only there
  std::string_view error = {};                // a sentence, with kError
  ErrorKind error_kind = ErrorKind::kRuntime;
  const Stats* stats = nullptr;  // with the last delta

  // How it came about; the token is the model's own choice in any case.
  const char* drafter = nullptr;       // who had guessed this token; null = nobody
  std::span<const int> rejected = {};  // guesses in the place of this token and after it that were wrong
  // A token of the prompt, which comes with its log-probabilities when Request::prompt_logprobs asks for them.
  // The first one has none, as nothing stands before it: NaN.
  bool of_prompt = false;

  bool drafted() const { return drafter != nullptr; }
  /// What the events say as text: neither reasoning nor calls.
  std::string text() const;
};

/// A stretch of a prompt that an encoder made; placeholder ids stand in Request::prompt in its place.
struct MediaSpan {
  int first = 0;  // position of its first row
  int rows = 0;
  bool both_ways = false;  // its rows see each other in both directions on sliding layers
  kv::MediaKey key = {};   // of what was encoded and how
  backend::SoftRowsHandle soft = nullptr;
};

struct Request {
  std::vector<int> prompt;
  std::vector<MediaSpan> media;  // ascending, apart from each other
  kv::Salt salt = {};            // whose pages it may share
  std::vector<int> boundaries;   // positions where a later prompt may begin to differ: ends of turns
  sample::Options sampling;
  int choice = 0;  // given back in every delta: which of several replies to one prompt this is
  int max_tokens = 256;
  int min_tokens = 0;         // before so many are written, no stop id can be picked
  bool draft = true;          // false: decoded plainly; the same bytes, slower
  int prompt_logprobs = -1;   // so many of the likeliest tokens for every token of the prompt; -1 = none
  std::vector<int> stop_ids;  // end the output and are neither output nor part of its text
  std::vector<std::string>
      stop_strings;                    // likewise; need `reply`; looked for in text alone, not in reasoning
  std::unique_ptr<ReplyStream> reply;  // null: tokens only
  /// Called on the thread that calls step(), for every delta in order. Must not throw; may call submit() and
  /// cancel().
  std::function<void(const Delta&)> sink;
};

}  // namespace slip::engine
