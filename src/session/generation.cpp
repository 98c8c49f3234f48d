#include "session/generation.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "engine/decoded_text.h"
#include "session/reply_stream.h"
#include "text/prompt.h"

namespace slip::session {
namespace {

uint64_t fresh_seed() {
  std::random_device device;
  // 53 bits: such a seed survives a trip through JSON readers that keep numbers as doubles.
  return ((uint64_t{device()} << 32) | device()) >> 11;
}

std::unique_ptr<engine::ReplyStream> reply_stream(const GenerationSource& source, const Prompt& prompt,
                                                  ReplyForm form) {
  if (form == ReplyForm::kTokens) return nullptr;
  if (source.tokenizer == nullptr)
    fail_usage("{}: has no tokenizer, so it reads and writes token ids alone", source.checkpoint.path);
  if (form == ReplyForm::kChat) return chat_reply_stream(*source.tokenizer, prompt.in_thought);
  return engine::decoded_text(*source.tokenizer, {.skip_specials = form == ReplyForm::kText});
}

// Where a later prompt may begin to differ: behind the first turn, which holds the system's words and tools, and before
// the last two.
std::vector<int> ends_of_turns(const std::vector<int>& prompt, const text::Tokenizer* tokenizer) {
  std::vector<int> starts;
  const auto turn = tokenizer == nullptr ? std::nullopt : tokenizer->id_of(text::mark::kTurn);
  if (!turn) return starts;
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] == *turn) starts.push_back(static_cast<int>(i));
  }
  if (!starts.empty()) starts.erase(starts.begin());
  if (starts.size() > 3) starts.erase(starts.begin() + 1, starts.end() - 2);
  return starts;
}

int placeholder_of(const model::Config& config) {
  return config.placeholder_ids.empty() ? config.pad_id : config.placeholder_ids.front();
}

}  // namespace

sample::Options resolve_sampling(const SamplingChoice& choice, const checkpoint::GenerationConfig& defaults,
                                 int vocab) {
  sample::Options result;
  result.temperature = choice.temperature.value_or(defaults.do_sample ? defaults.temperature : 0);
  result.top_k = choice.top_k.value_or(defaults.top_k > 0 ? defaults.top_k : 0);
  result.top_p = choice.top_p.value_or(defaults.top_p > 0 ? defaults.top_p : 1);
  result.min_p = choice.min_p.value_or(defaults.min_p > 0 ? defaults.min_p : 0);
  result.repetition_penalty =
      choice.repetition_penalty.value_or(defaults.repetition_penalty > 0 ? defaults.repetition_penalty : 1);
  result.presence_penalty = choice.presence_penalty.value_or(0);
  result.frequency_penalty = choice.frequency_penalty.value_or(0);
  result.penalty_window = choice.penalty_window.value_or(-1);
  result.logit_bias = choice.logit_bias;
  std::sort(result.logit_bias.begin(), result.logit_bias.end(),
            [](const sample::LogitBias& a, const sample::LogitBias& b) { return a.id < b.id; });
  result.suppressed = defaults.suppress_ids;
  result.seed = choice.seed ? *choice.seed : fresh_seed();
  result.top_logprobs = choice.logprobs.value_or(-1);
  sample::validate(result, vocab);
  return result;
}

std::vector<int> stop_ids_of(const GenerationSource& source) {
  std::vector<int> ids = source.checkpoint.generation.stop_ids;
  const auto& config = source.checkpoint.config;
  ids.insert(ids.end(), config.eos_ids.begin(), config.eos_ids.end());
  if (source.tokenizer != nullptr) {
    for (const std::string_view token : {text::mark::kEos, text::mark::kTurnEnd, text::mark::kUnknown}) {
      if (const auto id = source.tokenizer->id_of(token); id && *id < config.vocab) ids.push_back(*id);
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

engine::Request make_request(const GenerationSource& source, const Prompt& prompt,
                             const Generation& generation) {
  const model::Config& config = source.checkpoint.config;
  engine::Request request;
  prompt.fill(request, placeholder_of(config));
  request.salt = generation.salt;
  request.boundaries = ends_of_turns(request.prompt, source.tokenizer);
  request.sampling = resolve_sampling(generation.sampling, source.checkpoint.generation, config.vocab);
  request.sampling.placeholders = config.placeholder_ids;
  request.sampling.seed += static_cast<uint64_t>(generation.choice);
  request.choice = generation.choice;
  request.max_tokens = generation.max_tokens > 0 ? generation.max_tokens : kDefaultMaxTokens;
  request.min_tokens = generation.min_tokens;
  request.draft = generation.draft;
  request.prompt_logprobs = generation.prompt_logprobs;
  if (!generation.ignore_stop_ids) request.stop_ids = stop_ids_of(source);
  request.stop_ids.insert(request.stop_ids.end(), generation.stop_ids.begin(), generation.stop_ids.end());
  request.stop_strings = generation.stop_strings;
  request.reply = reply_stream(source, prompt, generation.form);
  return request;
}

}  // namespace slip::session
