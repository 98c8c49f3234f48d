#include "speculate/speculator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"

namespace slip::speculate {
namespace {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<Effort> efforts_of(std::span<const std::unique_ptr<Drafter>> drafters) {
  std::vector<Effort> efforts;
  for (const auto& drafter : drafters) efforts.push_back(drafter->effort());
  return efforts;
}

// A shorter match after guesses, which may be wrong themselves, is not worth a look at its value.
constexpr int kLeastExtendedMatch = 4;

}  // namespace

Speculator::Speculator(std::vector<std::unique_ptr<Drafter>> drafters, int vocab, const DepthOptions& options,
                       ReadClock clock)
    : drafters_(std::move(drafters)),
      dropped_(drafters_.size(), false),
      vocab_(vocab),
      clock_(clock == nullptr ? steady_seconds : clock),
      controller_(efforts_of(drafters_), options),
      lookups_(drafters_.size()) {
  for (const auto& drafter : drafters_) {
    tap_floats_ = std::max(tap_floats_, drafter->tap_floats());
    reads_hidden_ |= drafter->reads_hidden();
    if (drafter->layout() != nullptr) layouts_.push_back(drafter->layout());
  }
}

void Speculator::caches(uint64_t id, std::vector<kv::Cache*>& caches) {
  for (size_t d = 0; d < drafters_.size(); ++d) {
    if (drafters_[d]->layout() != nullptr) caches.push_back(dropped_[d] ? nullptr : drafters_[d]->cache(id));
  }
}

template <typename Work>
void Speculator::guard(size_t drafter, Work&& work) {
  if (dropped_[drafter]) return;
  try {
    work(*drafters_[drafter]);
  } catch (const std::exception& error) {
    dropped_[drafter] = true;
    controller_.drop(static_cast<int>(drafter));
    failures_.push_back(fmt::format("the {} drafter failed and is not used any more: {}",
                                    drafters_[drafter]->name(), error.what()));
  }
}

void Speculator::begin(const SequenceView& view) {
  states_[view.id] = {.record = controller_.new_record()};
  const size_t count = states_.size();
  controller_.reserve(static_cast<int>(count));
  plans_.reserve(count);
  asked_.reserve(count);
  const auto grow = [&](std::vector<Proposal>& proposals) {
    while (proposals.size() < count) proposals.emplace_back().drafts.reserve(2 * kMostDepth);
  };
  while (slots_.size() < count) slots_.emplace_back().drafts.reserve(2 * kMostDepth);
  grow(proposals_);
  for (size_t d = 0; d < drafters_.size(); ++d) {
    if (drafters_[d]->effort() == Effort::kLookup) grow(lookups_[d]);
    guard(d, [&](Drafter& drafter) { drafter.begin(view); });
  }
}

void Speculator::settled(uint64_t id) {
  states_.erase(id);
  for (size_t d = 0; d < drafters_.size(); ++d) {
    guard(d, [&](Drafter& drafter) { drafter.settled(id); });
  }
}

void Speculator::committed(const SequenceView& view, const Pass& pass) {
  for (size_t d = 0; d < drafters_.size(); ++d) {
    guard(d, [&](Drafter& drafter) { drafter.committed(view, pass); });
  }
}

void Speculator::passed(int rows, int sequences, double seconds, bool decoding_only) {
  if (decoding_only) controller_.passed(rows, sequences, seconds);
}

// The last token of a text is sampled after all guesses, so it needs none.
int Speculator::room(const Slot& slot, int sequence_rows) const {
  const int left = slot.view->most_tokens - static_cast<int>(slot.view->tokens.size()) - 1;
  return std::clamp(std::min(left, sequence_rows - 1), 0, kMostDepth);
}

void Speculator::propose(std::span<const SequenceView* const> views, int most_rows, int sequence_rows) {
  const double begin = clock_();
  count_ = views.size();
  SLIP_CHECK(count_ <= slots_.size());
  sequence_rows_ = sequence_rows;
  plans_.resize(count_);
  for (size_t i = 0; i < count_; ++i) {
    const auto state = states_.find(views[i]->id);
    SLIP_CHECK(state != states_.end());
    Slot& slot = slots_[i];
    slot.view = views[i];
    slot.state = &state->second;
    slot.drafts.clear();
    slot.state->drafter = slot.state->then = -1;
    slot.state->own = 0;
    plans_[i].record = &state->second.record;
    plans_[i].option_count = 0;
  }
  for (size_t d = 0; d < drafters_.size(); ++d) look_up(d, sequence_rows);
  controller_.plan(plans_, most_rows);
  for (size_t d = 0; d < drafters_.size(); ++d) draft(d);
  for (size_t i = 0; i < count_; ++i) {
    Decision& decision = plans_[i].decision;
    if (decision.drafter_index >= 0)
      decision.drafter = drafters_[static_cast<size_t>(decision.drafter_index)]->name();
    for (size_t d = 0; d < drafters_.size(); ++d) extend(d, i);
  }
  draft_seconds_ = clock_() - begin;
}

// Offers of one drafter to all sequences; a lookup has to be made to know them.
void Speculator::look_up(size_t drafter, int sequence_rows) {
  if (dropped_[drafter]) return;
  const bool lookup = drafters_[drafter]->effort() == Effort::kLookup;
  const int most = drafters_[drafter]->most_drafts();
  const auto proposals = std::span(lookups_[drafter]).first(lookup ? count_ : 0);
  for (size_t i = 0; i < proposals.size(); ++i) {
    Proposal& proposal = proposals[i];
    proposal.view = slots_[i].view;
    proposal.depth = std::min(most, room(slots_[i], sequence_rows));
    proposal.drafts.clear();
    proposal.match = 0;
  }
  if (lookup) {
    guard(drafter, [&](Drafter& asked) { asked.propose(proposals); });
    if (dropped_[drafter]) return;
  }
  for (size_t i = 0; i < count_; ++i) {
    DraftPlan& plan = plans_[i];
    DraftOption option{.drafter = static_cast<int>(drafter),
                       .most = std::min(most, room(slots_[i], sequence_rows))};
    if (lookup) {
      sanitise(proposals[i].drafts, 0, proposals[i].depth);
      option.match = match_class(proposals[i].match);
      option.most = static_cast<int>(proposals[i].drafts.size());
    }
    if (option.most > 0) plan.options[static_cast<size_t>(plan.option_count++)] = option;
  }
}

// The guesses one drafter was chosen for.
void Speculator::draft(size_t drafter) {
  const bool lookup = drafters_[drafter]->effort() == Effort::kLookup;
  asked_.clear();
  for (size_t i = 0; i < count_; ++i) {
    const DraftPlan& plan = plans_[i];
    if (plan.depth < 1 || plan.chosen.drafter != static_cast<int>(drafter)) continue;
    if (lookup) {
      std::vector<int>& found = lookups_[drafter][i].drafts;
      found.resize(std::min(found.size(), static_cast<size_t>(plan.depth)));
      slots_[i].drafts = found;
    } else {
      Proposal& proposal = proposals_[asked_.size()];
      proposal.view = slots_[i].view;
      proposal.depth = plan.depth;
      proposal.drafts.clear();
      proposal.match = 0;
    }
    asked_.push_back(i);
  }
  if (asked_.empty()) return;
  if (!lookup) ask(drafter);
  for (const size_t i : asked_) {
    State& state = *slots_[i].state;
    state.drafter = static_cast<int>(drafter);
    state.match = plans_[i].chosen.match;
    state.own = static_cast<int>(slots_[i].drafts.size());
    state.asked = plans_[i].depth;
  }
}

void Speculator::ask(size_t drafter) {
  const auto proposals = std::span(proposals_).first(asked_.size());
  const double begin = clock_();
  guard(drafter, [&](Drafter& asked) { asked.propose(proposals); });
  const double seconds = clock_() - begin;
  if (dropped_[drafter]) return;
  int steps = 1, rows = 0;
  for (size_t k = 0; k < asked_.size(); ++k) {
    const DraftPlan& plan = plans_[asked_[k]];
    std::vector<int>& drafts = proposals[k].drafts;
    sanitise(drafts, 0, plan.depth);
    steps = std::max(steps, static_cast<int>(drafts.size()));
    rows += std::max(1, static_cast<int>(drafts.size()));
    slots_[asked_[k]].drafts = drafts;
    // Silence is as useless as a wrong guess, and took as long.
    if (drafts.empty()) controller_.judged(*plan.record, plan.chosen.drafter, plan.chosen.match, 1, 0);
  }
  controller_.drafted(static_cast<int>(drafter), static_cast<int>(asked_.size()), steps, rows, seconds);
}

// A lookup that goes on after a network's guesses.
void Speculator::extend(size_t drafter, size_t index) {
  Slot& slot = slots_[index];
  State& state = *slot.state;
  const int depth = static_cast<int>(slot.drafts.size());
  const int most = room(slot, sequence_rows_) - depth;
  if (dropped_[drafter] || drafters_[drafter]->effort() != Effort::kLookup) return;
  if (depth == 0 || most < 1 || state.then >= 0 || state.drafter == static_cast<int>(drafter)) return;
  Proposal& proposal = proposals_[0];
  proposal.view = slot.view;
  proposal.depth = most;
  proposal.drafts = slot.drafts;
  proposal.match = 0;
  guard(drafter, [&](Drafter& asked) { asked.propose({&proposal, 1}); });
  if (dropped_[drafter] || proposal.match < kLeastExtendedMatch) return;
  if (!std::equal(slot.drafts.begin(), slot.drafts.end(), proposal.drafts.begin(),
                  proposal.drafts.begin() + std::min<ptrdiff_t>(depth, std::ssize(proposal.drafts))))
    return;
  sanitise(proposal.drafts, slot.drafts.size(), depth + most);
  const DraftOption option{.drafter = static_cast<int>(drafter),
                           .match = match_class(proposal.match),
                           .most = static_cast<int>(proposal.drafts.size()) - depth};
  const int extra = controller_.extend(plans_[index], option, depth);
  if (extra < 1) return;
  state.then = option.drafter;
  state.then_match = option.match;
  slot.drafts.assign(proposal.drafts.begin(), proposal.drafts.begin() + depth + extra);
}

// No more than asked for, and nothing the model could not be fed with.
void Speculator::sanitise(std::vector<int>& drafts, size_t from, int most) const {
  size_t count = std::min(drafts.size(), static_cast<size_t>(most));
  for (size_t i = from; i < count; ++i) {
    if (drafts[i] < 0 || drafts[i] >= vocab_) count = i;
  }
  drafts.resize(count);
}

Guesses Speculator::guesses(size_t index) const {
  const Slot& slot = slots_[index];
  const State& state = *slot.state;
  const auto name = [&](int drafter) {
    return drafter < 0 ? "" : drafters_[static_cast<size_t>(drafter)]->name();
  };
  return {.tokens = slot.drafts, .own = state.own, .by = name(state.drafter), .then = name(state.then)};
}

void Speculator::judged(const SequenceView& view, int granted, const Outcome& outcome) {
  const auto found = states_.find(view.id);
  if (found == states_.end() || granted < 1) return;
  State& state = found->second;
  if (state.drafter >= 0 && state.own > 0) {
    const int accepted = std::min(outcome.accepted, state.own);
    // All were right, but there were fewer than asked for: the one that is missing counts as wrong.
    const bool fell_silent = accepted == state.own && state.own < state.asked;
    const int seen = fell_silent ? state.own + 1 : std::min(outcome.judged, state.own);
    controller_.judged(state.record, state.drafter, state.match, seen, accepted);
  }
  if (state.then >= 0 && outcome.judged > state.own) {
    controller_.judged(state.record, state.then, state.then_match, outcome.judged - state.own,
                       outcome.accepted - state.own);
  }
}

}  // namespace slip::speculate
