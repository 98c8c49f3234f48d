// The drafters of a golden case: one round of the assistant and two blocks of the DFlash drafter, as
// transformers and the authors of DFlash compute them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "checkpoint/assistant.h"
#include "checkpoint/dflash.h"
#include "conformance/golden_support.h"
#include "reference/assistant.h"
#include "reference/dflash.h"
#include "reference/target_run.h"

namespace slip::conformance {

using session::Activations;

namespace {

int count_differences(std::span<const int> got, std::span<const int> want) {
  int wrong = static_cast<int>(std::max(got.size(), want.size()) - std::min(got.size(), want.size()));
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) wrong += got[i] != want[i] ? 1 : 0;
  return wrong;
}

}  // namespace

void fill_unscored(std::span<float> row) {
  float least = INFINITY;
  for (const float x : row) {
    if (std::isfinite(x)) least = std::min(least, x);
  }
  for (float& x : row) {
    if (std::isinf(x)) x = least - 1;
  }
}

namespace {

/// Every step starts from the expected state: in a chain, the rounding of one step is amplified by the next.
std::vector<reference::AssistantStep> expected_steps(std::span<const float> hidden, int first,
                                                     std::span<const int> tokens, int position,
                                                     size_t hidden_size) {
  std::vector<reference::AssistantStep> steps;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto state = hidden.subspan(i * hidden_size, hidden_size);
    steps.push_back({.token = i == 0 ? first : tokens[i - 1],
                     .hidden = {state.begin(), state.end()},
                     .position = position,
                     .keys = position,
                     .extra_keys = 1});
  }
  return steps;
}

/// What rounding by `noise` may move of the steps' results, those of the target that they stand on included.
struct AllowedDrafts {
  double logits, hidden;
};
AllowedDrafts allowed_drafts(const checkpoint::Checkpoint& target,
                             const checkpoint::AssistantCheckpoint& assistant, std::span<const int> prompt,
                             const std::vector<reference::AssistantStep>& steps, double noise) {
  const auto run = [&](const reference::Disturb& disturb, bool scores) {
    reference::TargetRun text(target.config, target.weights, disturb);
    text.feed(prompt);
    reference::Assistant network(assistant.config, assistant.weights, target.config, target.weights);
    network.disturb(disturb);
    std::vector<float> all;
    if (!scores) all = text.hidden;
    for (const reference::AssistantStep& step : steps) {
      const reference::Result result = network.step(text.sequence, step);
      const auto& part = scores ? result.logits : result.hidden;
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  return {
      .logits = reference::allowed_error([&](const auto& disturb) { return run(disturb, true); }, noise),
      .hidden = reference::allowed_error([&](const auto& disturb) { return run(disturb, false); }, noise)};
}

/// The same of a block behind `text`, guessed from `anchor`.
double allowed_block(const checkpoint::Checkpoint& target, const checkpoint::DflashCheckpoint& dflash,
                     std::span<const int> text, int anchor, int rows, double noise) {
  const auto run = [&](const reference::Disturb& disturb) {
    reference::TargetRun read(target.config, target.weights, disturb);
    read.feed(text);
    reference::Dflash network(dflash.config, dflash.weights, target.weights);
    network.disturb(disturb);
    reference::Sequence context;
    network.extend(context, read.taps(dflash.config.taps, 0));
    std::vector<float> all;
    for (const auto& row : network.run_block(context, anchor, rows))
      all.insert(all.end(), row.begin(), row.end());
    return all;
  };
  return reference::allowed_error(run, noise);
}

}  // namespace

void check_assistant(const std::string& folder, const Expected& expected, const VerifyOptions& options,
                     std::vector<Check>& checks) {
  const auto target = checkpoint::open(folder + "/target");
  const auto assistant = checkpoint::open_assistant(folder + "/assistant", target->config);
  const std::vector<int> prompt = prompt_of(expected, *target);
  const std::vector<int> want = expected.tokens("draft_tokens");
  const std::vector<int> greedy = expected.tokens("greedy_tokens");
  if (greedy.empty()) fail_file("{}/expected.json: greedy_tokens is empty", folder);
  for (const auto& list : {want, greedy}) {
    for (const int id : list) {
      if (id < 0 || id >= target->config.vocab)
        fail_file("{}/expected.json: the id {} is outside the vocabulary", folder, id);
    }
  }

  GoldenModel model(*target, Activations::kFloat, kv::Storage::kF32, options);
  model.feed(prompt, model.max_rows());
  // transformers lets a sliding layer see one key more than the window and turns queries by the newest
  // token's own position.
  const auto drafter =
      model.backend().load_assistant(assistant->config, assistant->weights, {.max_rows = 1, .extra_keys = 1});
  const auto hidden_size = static_cast<size_t>(target->config.hidden);
  const auto vocab = static_cast<size_t>(target->config.vocab);
  const std::vector<float> want_hidden = expected.floats("draft_hidden");
  if (want_hidden.size() != (want.size() + 1) * hidden_size) {
    fail_file("{}/expected.safetensors: draft_hidden does not have one row more than there are draft_tokens",
              folder);
  }
  const auto steps =
      expected_steps(want_hidden, greedy[0], want, static_cast<int>(prompt.size()), hidden_size);
  std::vector<float> hiddens(model.hidden.end() - static_cast<std::ptrdiff_t>(hidden_size),
                             model.hidden.end());
  std::vector<float> logits;
  std::vector<int> tokens;
  for (const reference::AssistantStep& step : steps) {
    const backend::AssistantRow row{.token = step.token,
                                    .hidden = step.hidden.data(),
                                    .position = step.position,
                                    .keys = step.keys,
                                    .cache = &model.cache()};
    const backend::Output out = drafter->step({&row, 1});
    const size_t at = logits.size();
    logits.insert(logits.end(), out.logits, out.logits + vocab);
    fill_unscored(std::span(logits).subspan(at));
    hiddens.insert(hiddens.end(), out.hidden, out.hidden + hidden_size);
    tokens.push_back(argmax(std::span(logits).last(vocab)));
  }
  const double noise = device_noise(target->config, options, 16, prompt.size());
  const AllowedDrafts allowed = allowed_drafts(*target, *assistant, prompt, steps, noise);
  checks.push_back(judge("assistant logits", relative_error(logits, expected.floats("draft_logits")),
                         allowed.logits, kRelative));
  checks.push_back(
      judge("assistant hidden", relative_error(hiddens, want_hidden), allowed.hidden, kRelative));
  checks.push_back(judge("assistant tokens", count_differences(tokens, want), 0, kWrongTokens));
}

void check_dflash(const std::string& folder, const Expected& expected, const VerifyOptions& options,
                  std::vector<Check>& checks) {
  const auto target = checkpoint::open(folder + "/target");
  const auto dflash = checkpoint::open_dflash(folder + "/dflash", target->config);
  std::vector<int> text = prompt_of(expected, *target);
  const size_t prompt = text.size();
  const std::vector<int> greedy = expected.tokens("greedy_tokens");
  text.insert(text.end(), greedy.begin(), greedy.end());

  GoldenModel model(*target, Activations::kFloat, kv::Storage::kF32, options);
  model.set_taps(dflash->config.taps);
  const auto drafter = model.backend().load_dflash(dflash->config, dflash->weights, {});
  const auto cache = drafter->new_cache();
  cache->reserve(static_cast<int64_t>(text.size()) + dflash->config.block);

  const auto& rounds = expected.fact("dflash_rounds");
  if (!rounds.is_array()) fail_file("{}/expected.json: dflash_rounds is not a list", folder);
  size_t fed = 0;
  for (size_t r = 0; r < rounds.size(); ++r) {
    const auto& round = rounds[r];
    if (!round.is_object() || !round.contains("start") || !round.contains("tokens") ||
        !round["start"].is_number_unsigned()) {
      fail_file("{}/expected.json: round {} of dflash_rounds lacks start or tokens", folder, r);
    }
    // The anchor stands at `start`; the target has computed everything before it.
    const auto start = round["start"].get<size_t>();
    const std::vector<int> want = expected.token_list(round["tokens"], "dflash_rounds");
    if (start < std::max(fed, prompt) || start >= text.size() || want.empty() ||
        static_cast<int>(want.size()) >= dflash->config.block) {
      fail_file("{}/expected.json: round {} of dflash_rounds does not fit the case", folder, r);
    }
    model.taps.clear();
    model.feed(std::span(text).subspan(fed, start - fed), model.max_rows());
    const backend::ContextRows context{cache.get(), model.taps.data(), static_cast<int>(start - fed)};
    drafter->extend({&context, 1});
    fed = start;

    const backend::Block block{cache.get(), text[start], static_cast<int>(want.size()) + 1};
    const backend::Output out = drafter->run({&block, 1});
    const auto vocab = static_cast<size_t>(target->config.vocab);
    const std::vector<float> logits(out.logits, out.logits + static_cast<size_t>(out.rows) * vocab);
    std::vector<int> tokens;
    for (size_t i = 0; i < want.size(); ++i)
      tokens.push_back(argmax(std::span(logits).subspan(i * vocab, vocab)));
    const double noise = device_noise(target->config, options, 16, start + want.size());
    const double allowed = allowed_block(*target, *dflash, std::span(text).first(start), text[start],
                                         static_cast<int>(want.size()) + 1, noise);
    checks.push_back(judge(fmt::format("dflash logits, round {}", r + 1),
                           relative_error(logits, expected.floats(fmt::format("dflash_logits_{}", r))),
                           allowed, kRelative));
    checks.push_back(judge(fmt::format("dflash tokens, round {}", r + 1), count_differences(tokens, want), 0,
                           kWrongTokens));
  }
}

}  // namespace slip::conformance
