#include "server/api/completion_request.h"

#include <fmt/format.h>

#include "sample/options.h"
#include "server/api/error.h"

namespace slip::server::api {
namespace {

using nlohmann::json;

std::vector<int> read_ids(const json& list, const std::string& where, int vocab) {
  std::vector<int> ids;
  ids.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i)
    ids.push_back(read_id(list[i], fmt::format("{}[{}]", where, i), vocab));
  return ids;
}

/// A string, a list of ids, or a list of either.
void read_prompts(const Fields& fields, int vocab, CompletionRequest& request) {
  const json* prompt = fields.find("prompt");
  if (prompt == nullptr) fail_field("prompt", "is missing");
  if (prompt->is_string()) {
    request.prompts.emplace_back(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array()) fail_field("prompt", "must be a string or a list, not {}", kind_text(*prompt));
  if (prompt->empty()) fail_field("prompt", "is empty; give at least one token");
  if (prompt->front().is_number()) {
    request.prompts.emplace_back(read_ids(*prompt, "prompt", vocab));
    return;
  }
  if (prompt->size() > kMostPrompts)
    fail_field("prompt", "must hold at most {} prompts, not {}", kMostPrompts, prompt->size());
  for (size_t i = 0; i < prompt->size(); ++i) {
    const std::string where = fmt::format("prompt[{}]", i);
    const json& one = (*prompt)[i];
    if (one.is_string()) {
      request.prompts.emplace_back(one.get<std::string>());
    } else if (one.is_array() && !one.empty()) {
      request.prompts.emplace_back(read_ids(one, where, vocab));
    } else {
      fail_field(where, "must be a string or a list of token ids, not {}",
                 one.is_array() ? "an empty list" : kind_text(one));
    }
  }
}

}  // namespace

CompletionRequest read_completion(const json& body, int vocab) {
  const Fields fields(body);
  CompletionRequest request{.common = read_generation(fields, vocab)};
  read_prompts(fields, vocab, request);
  refuse_forced_forms(fields);
  request.raw = {.parse_specials = fields.boolean_or("parse_special", true),
                 .add_bos = fields.boolean_or("add_special_tokens", true)};
  request.echo = fields.boolean_or("echo", false);
  session::Generation& generation = request.common.generation;
  if (const auto logprobs = fields.integer("logprobs", 0, sample::kMaxTopLogprobs)) {
    generation.sampling.logprobs = static_cast<int>(*logprobs);
    if (request.echo) generation.prompt_logprobs = static_cast<int>(*logprobs);
  }
  if (const auto suffix = fields.text("suffix"); suffix && !suffix->empty())
    fail_unsupported("suffix", "this model cannot fill in between two texts; leave it out");
  if (const auto best = fields.integer("best_of", 1, kMostChoices); best && *best != request.common.choices)
    fail_unsupported("best_of", "this server returns every reply that it writes; use n");
  if (request.common.max_tokens == 0) {
    if (!request.echo) fail_field("max_tokens", "must be at least 1 without echo, not 0");
    request.no_answer = true;
    request.common.max_tokens = 1;
  }
  const bool hides = fields.boolean_or("skip_special_tokens", true);
  generation.form = hides ? session::ReplyForm::kText : session::ReplyForm::kSpelled;
  return request;
}

}  // namespace slip::server::api
