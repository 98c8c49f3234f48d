#include "speculate/mtp.h"

#include <algorithm>

#include "base/check.h"
#include "sample/candidates.h"

namespace slip::speculate {
namespace {

// Options that look at the history, or change values, are left to the sampler.
std::optional<backend::DrawRule> rule_of(const sample::Options& options) {
  backend::DrawRule rule;
  if (options.penalises() || !options.logit_bias.empty() ||
      options.suppressed.size() > rule.suppressed.size())
    return std::nullopt;
  if (!options.greedy()) {
    rule.temperature = options.temperature;
    rule.top_k = options.top_k;
    rule.top_p = options.top_p;
    rule.min_p = options.min_p;
    rule.seed = options.seed;
  }
  std::copy(options.suppressed.begin(), options.suppressed.end(), rule.suppressed.begin());
  rule.suppressed_count = static_cast<int>(options.suppressed.size());
  return rule;
}

}  // namespace

MtpDrafter::MtpDrafter(backend::Assistant& assistant, MtpPosition position)
    : assistant_(assistant),
      position_(position),
      hidden_(static_cast<size_t>(assistant.config().backbone_hidden)),
      sampler_(assistant.config().text.vocab) {
  const auto most = static_cast<size_t>(assistant.max_rows());
  SLIP_CHECK(most >= 1);
  chains_.reserve(most);
  rows_.reserve(most);
}

void MtpDrafter::begin(const SequenceView& view) {
  State& state = states_[view.id];
  state.hidden.resize(hidden_);
  state.known = false;
  state.sampling = *view.sampling;
  state.sampling.top_logprobs = -1;
  state.rule = rule_of(state.sampling);
}

void MtpDrafter::committed(const SequenceView& view, const Pass& pass) {
  const auto found = states_.find(view.id);
  if (found == states_.end() || pass.kept == 0) return;
  State& state = found->second;
  state.known = pass.hidden != nullptr;
  if (state.known) std::copy_n(pass.hidden, hidden_, state.hidden.begin());
}

void MtpDrafter::propose(std::span<Proposal> proposals) {
  chains_.clear();
  for (Proposal& proposal : proposals) {
    const auto state = states_.find(proposal.view->id);
    if (state == states_.end() || !state->second.known) continue;
    if (proposal.depth <= 0 || !proposal.drafts.empty()) continue;
    chains_.push_back({.proposal = &proposal, .state = &state->second});
    if (chains_.size() == static_cast<size_t>(assistant_.max_rows())) draw_batch();
  }
  draw_batch();
}

// All guesses of the sequences in chains_, as many steps at a time as the assistant makes.
void MtpDrafter::draw_batch() {
  rows_.clear();
  for (const Chain& chain : chains_) {
    const SequenceView& view = *chain.proposal->view;
    const int keys = view.cache->length();
    rows_.push_back({.token = view.tokens.back(),
                     .hidden = chain.state->hidden.data(),
                     .position = position_ == MtpPosition::kNewestToken ? keys : std::max(keys - 1, 0),
                     .keys = keys,
                     .cache = view.cache});
  }
  while (!chains_.empty()) {
    int depth = 0;
    for (size_t i = 0; i < chains_.size(); ++i) {
      ask(i);
      depth = std::max(depth, chains_[i].left());
    }
    const std::span<const backend::Output> steps = assistant_.chain(rows_, depth);
    for (size_t i = 0; i < chains_.size(); ++i) follow(i, steps);
    for (size_t i = chains_.size(); i-- > 0;) {
      if (chains_[i].left() == 0) leave(i);
    }
  }
}

// How the row's next guess will be drawn.
void MtpDrafter::ask(size_t chain) {
  const Proposal& proposal = *chains_[chain].proposal;
  State& state = *chains_[chain].state;
  backend::AssistantRow& row = rows_[chain];
  const SequenceView& view = *proposal.view;
  const auto history = static_cast<int64_t>(view.tokens.size() + proposal.drafts.size());
  row.candidates =
      sample::candidates_needed(state.sampling, history, static_cast<int64_t>(view.prompt_tokens));
  row.draw = nullptr;
  if (row.candidates == 0 || !state.rule) return;
  state.rule->position = history;
  row.draw = &*state.rule;
}

// Draws from the steps as far as they went on with what is drawn.
void MtpDrafter::follow(size_t chain, std::span<const backend::Output> steps) {
  for (size_t step = 0; step < steps.size(); ++step) {
    const backend::Output& output = steps[step];
    const int guess = draw(chains_[chain], output.scores(static_cast<int>(chain), sampler_.vocab()));
    chains_[chain].proposal->drafts.push_back(guess);
    if (chains_[chain].left() == 0) return;
    if (step + 1 < steps.size() && output.best[chain].next == guess) continue;
    rows_[chain].token = guess;
    rows_[chain].hidden = assistant_.hidden_after(step, chain);
    return;
  }
}

int MtpDrafter::draw(const Chain& chain, const Scores& scores) {
  const Proposal& proposal = *chain.proposal;
  sample::Context context{.history = proposal.view->tokens,
                          .prompt_tokens = proposal.view->prompt_tokens,
                          .guesses = proposal.drafts};
  context.position = static_cast<int64_t>(context.length());
  return sampler_.sample(scores, context, chain.state->sampling).token;
}

void MtpDrafter::leave(size_t chain) {
  chains_.erase(chains_.begin() + static_cast<ptrdiff_t>(chain));
  rows_.erase(rows_.begin() + static_cast<ptrdiff_t>(chain));
}

}  // namespace slip::speculate
