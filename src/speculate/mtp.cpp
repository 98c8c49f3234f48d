#include "speculate/mtp.h"

#include <algorithm>

#include "base/check.h"
#include "sample/enough.h"

namespace slip::speculate {

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

void MtpDrafter::begin(const Subject& subject) {
  State& state = states_[subject.id];
  state.hidden.resize(hidden_);
  state.known = false;
  state.sampling = *subject.sampling;
  state.sampling.top_logprobs = -1;
}

void MtpDrafter::committed(const Subject& subject, const Pass& pass) {
  const auto found = states_.find(subject.id);
  if (found == states_.end() || pass.kept == 0) return;
  State& state = found->second;
  state.known = pass.hidden != nullptr;
  if (state.known) std::copy_n(pass.hidden, hidden_, state.hidden.begin());
}

void MtpDrafter::propose(std::span<Proposal> proposals) {
  chains_.clear();
  for (Proposal& proposal : proposals) {
    const auto state = states_.find(proposal.subject->id);
    if (state == states_.end() || !state->second.known) continue;
    if (proposal.depth <= 0 || !proposal.drafts.empty()) continue;
    chains_.push_back({.proposal = &proposal, .state = &state->second});
    if (chains_.size() == static_cast<size_t>(assistant_.max_rows())) draw_batch();
  }
  draw_batch();
}

// All guesses of the sequences in chains_, one step at a time.
void MtpDrafter::draw_batch() {
  rows_.clear();
  for (const Chain& chain : chains_) {
    const Subject& subject = *chain.proposal->subject;
    const int keys = subject.cache->length();
    rows_.push_back({.token = subject.tokens->back(),
                     .hidden = chain.state->hidden.data(),
                     .position = position_ == MtpPosition::kNewestToken ? keys : std::max(keys - 1, 0),
                     .keys = keys,
                     .cache = subject.cache});
  }
  while (!chains_.empty()) {
    for (size_t i = 0; i < chains_.size(); ++i) {
      const Proposal& proposal = *chains_[i].proposal;
      const auto history = proposal.subject->tokens->size() + proposal.drafts.size();
      rows_[i].best = sample::enough(chains_[i].state->sampling, static_cast<int64_t>(history));
    }
    const backend::Output output = assistant_.step(rows_);
    for (size_t i = 0; i < chains_.size(); ++i) {
      Proposal& proposal = *chains_[i].proposal;
      std::vector<int>& history = *proposal.subject->tokens;
      const size_t known = history.size();
      history.insert(history.end(), proposal.drafts.begin(), proposal.drafts.end());
      const int guess = sampler_
                            .sample(output.scores(static_cast<int>(i), sampler_.vocab()), history,
                                    chains_[i].state->sampling, static_cast<int64_t>(history.size()))
                            .token;
      history.resize(known);
      proposal.drafts.push_back(guess);
      rows_[i].token = guess;
      rows_[i].hidden = output.hidden + i * hidden_;
    }
    for (size_t i = chains_.size(); i-- > 0;) {
      const Proposal& proposal = *chains_[i].proposal;
      if (proposal.drafts.size() == static_cast<size_t>(proposal.depth)) leave(i);
    }
  }
}

void MtpDrafter::leave(size_t chain) {
  chains_.erase(chains_.begin() + static_cast<ptrdiff_t>(chain));
  rows_.erase(rows_.begin() + static_cast<ptrdiff_t>(chain));
}

}  // namespace slip::speculate
