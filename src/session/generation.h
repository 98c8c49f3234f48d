// Generation: from what a caller asks for to what the engine gets, the only maker of an engine::Request. What the
// caller leaves out comes from the checkpoint's generation_config.json, and what that leaves out is neutral.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "engine/request.h"
#include "sample/options.h"
#include "session/prompt.h"
#include "text/tokenizer.h"

namespace slip::session {

/// Empty fields are the checkpoint's to fill.
struct SamplingChoice {
  std::optional<float> temperature = {}, top_p = {}, min_p = {};
  std::optional<int> top_k = {};
  std::optional<float> repetition_penalty = {}, presence_penalty = {}, frequency_penalty = {};
  std::optional<int> penalty_window = {};
  std::vector<sample::LogitBias> logit_bias = {};  // in any order, each id once
  std::optional<uint64_t> seed = {};               // empty: a fresh one
  std::optional<int> logprobs = {};                // so many of the likeliest beside each token
};

/// How tokens become a reply.
enum class ReplyForm {
  kChat,     // told apart into reasoning, text and tool calls
  kText,     // all of it is text; control tokens are left out
  kSpelled,  // likewise; control tokens are spelled out
  kTokens,   // ids alone
};

struct Generation {
  SamplingChoice sampling = {};
  ReplyForm form = ReplyForm::kChat;
  int max_tokens = 0;  // 0 = kDefaultMaxTokens
  int min_tokens = 0;
  bool ignore_stop_ids = false;
  std::vector<int> stop_ids = {};  // beside the model's own
  std::vector<std::string> stop_strings = {};
  bool draft = true;         // false: decoded plainly
  int prompt_logprobs = -1;  // so many of the likeliest for every token of the prompt
  kv::Salt salt = {};
  int choice = 0;  // which of several replies to one prompt: choice k draws with the seed + k
};

// Far beyond what the models write in one reply, and its cache stays small.
inline constexpr int kDefaultMaxTokens = 8192;

/// What a request is made from. Tokenizer: null for models that have none.
struct GenerationSource {
  const checkpoint::Checkpoint& checkpoint;
  const text::Tokenizer* tokenizer = nullptr;
};

/// Without a sink. Throws Error(kUsage) for what makes no sense with this model.
engine::Request make_request(const GenerationSource& source, const Prompt& prompt,
                             const Generation& generation);

/// The sampler's options: the caller's, then the checkpoint's, then neutral ones.
sample::Options resolve_sampling(const SamplingChoice& choice, const checkpoint::GenerationConfig& defaults,
                                 int vocab);

/// Every id that ends a reply: those of generation_config.json and config.json, the tokenizer's end of text and end
/// of turn, and its unknown token.
std::vector<int> stop_ids_of(const GenerationSource& source);

}  // namespace slip::session
