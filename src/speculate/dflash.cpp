#include "speculate/dflash.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "sample/candidates.h"

namespace slip::speculate {

DflashDrafter::DflashDrafter(backend::BlockDrafter& network)
    : network_(network),
      taps_(network.config().taps.size() * static_cast<size_t>(network.config().text.hidden)),
      waiting_rows_(std::min(kWaitingRows, network.max_rows())),
      sampler_(network.config().text.vocab) {
  SLIP_CHECK(network.max_rows() >= 2 && network.config().block >= 2);
  blocks_.reserve(static_cast<size_t>(network.max_rows()));
  contexts_.reserve(static_cast<size_t>(network.max_rows()));
}

int DflashDrafter::most_drafts() const {
  return std::min({kMostDepth, network_.config().block - 1, network_.max_rows() - 1});
}

kv::Cache* DflashDrafter::cache(uint64_t id) {
  const auto found = states_.find(id);
  return found == states_.end() || found->second.lost ? nullptr : found->second.cache.get();
}

void DflashDrafter::begin(const SequenceView& view) {
  State state;
  state.cache = network_.new_cache();
  state.waiting.resize(static_cast<size_t>(waiting_rows_) * taps_);
  state.sampling = *view.sampling;
  state.sampling.top_logprobs = -1;
  states_[view.id] = std::move(state);
  jobs_.reserve(states_.size());
}

void DflashDrafter::committed(const SequenceView& view, const Pass& pass) {
  const auto found = states_.find(view.id);
  if (found == states_.end() || pass.kept == 0 || found->second.lost) return;
  if (pass.taps == nullptr) fail(ErrorKind::kRuntime, "the model's backend was not asked for taps");
  State& state = found->second;
  const float* taps = pass.taps;
  for (int left = pass.kept; left > 0 && !state.lost;) {
    int count = std::min(left, waiting_rows_ - state.waiting_count);
    if (state.waiting_count == 0 && left >= waiting_rows_) {  // a prompt: straight from the pass
      count = std::min(left, network_.max_rows());
      store(state, taps, count);
    } else {
      std::copy_n(
          taps, static_cast<size_t>(count) * taps_,
          state.waiting.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(state.waiting_count) * taps_));
      state.waiting_count += count;
      if (state.waiting_count == waiting_rows_) {
        store(state, state.waiting.data(), state.waiting_count);
        state.waiting_count = 0;
      }
    }
    taps += static_cast<size_t>(count) * taps_;
    left -= count;
  }
}

// Without pages for it the context has a gap, and the sequence goes on without this drafter.
void DflashDrafter::store(State& state, const float* taps, int count) {
  if (!state.cache->grow(count)) {
    state.cache->release();
    state.waiting_count = 0;
    state.lost = true;
    return;
  }
  const backend::ContextRows rows{.cache = state.cache.get(), .taps = taps, .count = count};
  network_.extend({&rows, 1});
}

void DflashDrafter::propose(std::span<Proposal> proposals) {
  jobs_.clear();
  for (Proposal& proposal : proposals) {
    const auto state = states_.find(proposal.view->id);
    if (state == states_.end() || proposal.depth <= 0 || !proposal.drafts.empty()) continue;
    // A context with a gap (a sequence that began before this drafter) guesses nothing useful.
    kv::Cache& cache = *state->second.cache;
    const int waiting = state->second.waiting_count;
    if (cache.length() + waiting == 0 || cache.length() + waiting != proposal.view->cache->length()) continue;
    proposal.depth = std::min(proposal.depth, most_drafts());
    if (!cache.grow(waiting + proposal.depth + 1)) continue;
    jobs_.push_back({.proposal = &proposal, .state = &state->second});
  }
  store_waiting();
  size_t begin = 0;
  int rows = 0;
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const int more = jobs_[i].proposal->depth + 1;
    if (rows + more > network_.max_rows()) {
      draw_batch(std::span(jobs_).subspan(begin, i - begin));
      begin = i;
      rows = 0;
    }
    rows += more;
  }
  if (begin < jobs_.size()) draw_batch(std::span(jobs_).subspan(begin));
}

// In as few calls as their rows allow.
void DflashDrafter::store_waiting() {
  contexts_.clear();
  int rows = 0;
  const auto flush = [&] {
    if (!contexts_.empty()) network_.extend(contexts_);
    contexts_.clear();
    rows = 0;
  };
  for (const Job& job : jobs_) {
    State& state = *job.state;
    if (state.waiting_count == 0) continue;
    if (rows + state.waiting_count > network_.max_rows()) flush();
    contexts_.push_back(
        {.cache = state.cache.get(), .taps = state.waiting.data(), .count = state.waiting_count});
    rows += state.waiting_count;
    state.waiting_count = 0;
  }
  flush();
}

void DflashDrafter::draw_batch(std::span<const Job> jobs) {
  blocks_.clear();
  for (const Job& job : jobs) {
    const SequenceView& view = *job.proposal->view;
    // The last guess has the longest history, and needs the most.
    const auto history = static_cast<int64_t>(view.tokens.size()) + job.proposal->depth - 1;
    blocks_.push_back({.cache = job.state->cache.get(),
                       .anchor = view.tokens.back(),
                       .rows = job.proposal->depth + 1,
                       .candidates = sample::candidates_needed(job.state->sampling, history,
                                                               static_cast<int64_t>(view.prompt_tokens))});
  }
  const backend::Output output = network_.run(blocks_);
  int first = 0;
  for (const Job& job : jobs) {
    draw(job, output, first);
    first += job.proposal->depth;
  }
}

void DflashDrafter::draw(const Job& job, const backend::Output& output, int first) {
  Proposal& proposal = *job.proposal;
  for (int i = 0; i < proposal.depth; ++i) {
    sample::Context context{.history = proposal.view->tokens,
                            .prompt_tokens = proposal.view->prompt_tokens,
                            .guesses = proposal.drafts};
    context.position = static_cast<int64_t>(context.length());
    const Scores scores = output.scores(first + i, sampler_.vocab());
    proposal.drafts.push_back(sampler_.sample(scores, context, job.state->sampling).token);
  }
}

}  // namespace slip::speculate
