#include "speculate/depth.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/check.h"

namespace slip::speculate {
namespace {

// Another drafter must promise this much more to be chosen, another depth only so much that noise does not
// decide: changing the depth costs nothing in itself.
constexpr double kDrafterHysteresis = 1.05;
constexpr double kDepthHysteresis = 1.01;
// Guesses less likely than this are not worth looking at.
constexpr double kLeastReach = 0.01;
// Until measured, how often a first guess is right. Hopeful, so that everybody is tried; two guesses outweigh
// it.
constexpr double kFirstGuess = 0.75;
constexpr std::array<double, kMatchClasses> kFirstLookup = {0.3, 0.45, 0.6, 0.75, 0.85};
constexpr double kSharedMemory = 100;
// Of the time, what trying out may cost: plans that are worse than the one at hand, as far as is known.
constexpr double kLearningLoss = 0.01;
constexpr double kLeastStretch = 0.1;

}  // namespace

int match_class(int match) {
  if (match <= 2) return 0;
  if (match <= 4) return 1;
  if (match <= 8) return 2;
  return match <= 16 ? 3 : 4;
}

DepthController::DepthController(std::span<const Effort> efforts, const DepthOptions& options)
    : options_(options), drafts_(efforts) {
  SLIP_CHECK(options.most >= 1 && options.most <= kMostDepth && options.fixed <= kMostDepth);
  for (auto& estimates : shared_) {
    for (Estimate& estimate : estimates) estimate.acceptance = Acceptance(kSharedMemory);
  }
}

void DepthController::reserve(int sequences) {
  const auto count = static_cast<size_t>(sequences);
  choices_.reserve(count);
  depths_.reserve(count);
  order_.reserve(count * kMostDepth);
  worths_.reserve(count * kMostDepth);
  rates_.reserve(count * kMostDepth + 1);
  round_seconds_.reserve(count * kMostDepth + 1);
}

Record DepthController::new_record() const {
  Record record;
  for (size_t drafter = 0; drafter < kMostDrafters; ++drafter) {
    for (size_t match = 0; match < kMatchClasses; ++match) {
      record.estimates[drafter][match].backoff.start_from(shared_[drafter][match].backoff);
    }
  }
  return record;
}

size_t DepthController::bucket(int sequences) {
  const int log = std::bit_width(static_cast<unsigned>(sequences - 1));
  return std::min(static_cast<size_t>(log), kBuckets - 1);
}

void DepthController::passed(int rows, int sequences, double seconds) {
  if (rows < 1 || sequences < 1) return;
  curve(sequences).add(rows, seconds);
  if (rows != sequences) return;
  Mean& plain = plain_passes_[bucket(sequences)];
  if (++plain.count > 0) plain.seconds += seconds;
}

double DepthController::plain_seconds(int sequences) const {
  const CostCurve& cost = pass_[bucket(sequences)];
  return cost.measured() && cost.narrowest() <= sequences ? cost.at(sequences) : 0;
}

double DepthController::mean_plain_seconds(int sequences) const {
  const Mean& plain = plain_passes_[bucket(sequences)];
  return plain.count > 0 ? plain.seconds / plain.count : 0;
}

void DepthController::judged(Record& record, int drafter, int match, int judged, int accepted) {
  const auto d = static_cast<size_t>(drafter), m = static_cast<size_t>(match);
  for (int i = 0; i < std::min(judged, kMostDepth); ++i) {
    record.estimates[d][m].acceptance.add(i, i < accepted);
    shared_[d][m].acceptance.add(i, i < accepted);
    if (i >= accepted) break;
  }
}

void DepthController::fill_reach(const Record& record, const DraftOption& option,
                                 std::span<double> reach) const {
  const auto drafter = static_cast<size_t>(option.drafter), match = static_cast<size_t>(option.match);
  const double first = drafts_.effort(option.drafter) == Effort::kLookup ? kFirstLookup[match] : kFirstGuess;
  estimate(record.estimates[drafter][match].acceptance, shared_[drafter][match].acceptance, first, reach);
  for (size_t i = 1; i < reach.size(); ++i) reach[i] *= reach[i - 1];
}

// Of one sequence with so many guesses, if it carries its share of the pass, and all others draft like it.
double DepthController::seconds_alone(const DraftOption& option, int guesses) const {
  const double pass = cost_->at(count_);
  return pass / count_ + cost_->at(count_ + guesses) - pass +
         drafts_.share(option.drafter, count_, guesses, pass);
}

// The option with the best rate, were the sequence alone; the one of the last round wins among equals.
void DepthController::choose(const DraftPlan& sequence, Choice& choice) const {
  double best = 0;
  std::array<double, kMostDepth> reach;
  for (int i = 0; i < sequence.option_count; ++i) {
    const DraftOption& option = sequence.options[static_cast<size_t>(i)];
    const int most = std::min(option.most, options_.most);
    if (most < 1 || dropped_[static_cast<size_t>(option.drafter)]) continue;
    fill_reach(*sequence.record, option, reach);
    double rate = 0, tokens = 1;
    for (int guesses = 1; guesses <= most; ++guesses) {
      tokens += reach[static_cast<size_t>(guesses - 1)];
      rate = std::max(rate, tokens / seconds_alone(option, guesses));
    }
    if (option.drafter == sequence.record->drafter) rate *= kDrafterHysteresis;
    if (rate <= best) continue;
    best = rate;
    choice = {.option = &option, .reach = reach};
  }
}

size_t DepthController::walk(std::span<const DraftPlan> sequences, int most_rows) {
  DraftWork work;
  double tokens = count_;
  depths_.assign(sequences.size(), 0);
  order_.clear();
  worths_.clear();
  round_seconds_.assign(1, cost_->at(count_));
  rates_.assign(1, tokens / round_seconds_[0]);
  size_t best = 0;
  while (count_ + static_cast<int>(order_.size()) < most_rows) {
    int next = -1;
    double worth = kLeastReach;
    for (size_t i = 0; i < sequences.size(); ++i) {
      const Choice& choice = choices_[i];
      if (choice.option == nullptr || depths_[i] >= std::min(choice.option->most, options_.most)) continue;
      const double reach = choice.reach[static_cast<size_t>(depths_[i])];
      if (reach > worth) worth = reach, next = static_cast<int>(i);
    }
    if (next < 0) break;
    drafts_.add(work, choices_[static_cast<size_t>(next)].option->drafter,
                depths_[static_cast<size_t>(next)]++, round_seconds_[0]);
    order_.push_back(next);
    worths_.push_back(worth);
    tokens += worth;
    round_seconds_.push_back(cost_->at(count_ + static_cast<int>(order_.size())) + work.seconds);
    rates_.push_back(tokens / round_seconds_.back());
    if (rates_.back() > rates_[best]) best = rates_.size() - 1;
  }
  return best;
}

// The number of guesses to stay with: that of the last round unless another gains enough. What is worse than
// plain has no such right.
size_t DepthController::settle(size_t best) {
  const auto sequences = static_cast<size_t>(count_);
  if (last_sequences_ == sequences && last_guesses_ < rates_.size()) {
    const double last = rates_[last_guesses_];
    if (last * kDepthHysteresis >= rates_[best] && last >= rates_[0]) best = last_guesses_;
  }
  if (best > last_guesses_ && count_ + static_cast<int>(best) >= cost_->widest()) stretch_.found();
  if (best == 0) plain_.found();
  last_guesses_ = best;
  last_sequences_ = sequences;
  return best;
}

// What is done now: mostly what was settled; one guess beyond the widths measured at most; now and then a
// guess more, or none, to learn whether that has become better.
size_t DepthController::execute(size_t settled, bool& learning) {
  const auto frontier = static_cast<size_t>(cost_->widest());
  learning = settled > frontier;
  if (learning) return frontier;
  if (settled > 0 && plain_.due() && loss_of(0, settled) <= affordable(plain_, settled)) {
    plain_.tried();
    learning = true;
    return 0;
  }
  if (settled < order_.size() && cost_->doubtful(count_ + static_cast<int>(settled) + 1)) return settled + 1;
  if (stretched_ > 0) return std::min(settled + std::exchange(stretched_, 0), order_.size());
  if (settled == order_.size() || worths_[settled] < kLeastStretch || !stretch_.due()) return settled;
  stretched_ = stretch_of(settled);
  if (stretched_ == 0) return settled;
  stretch_.tried();
  return settled + stretched_;  // and once more in the next round: a first sample is thrown away
}

// Seconds by which a round with so many guesses takes longer for its tokens than the settled plan would.
double DepthController::loss_of(size_t guesses, size_t settled) const {
  return round_seconds_[guesses] * (1 - rates_[guesses] / rates_[settled]);
}

// What may be lost by trying something again that was tried last when `since` says; any loss after so long
// that whatever was known then is out of date.
double DepthController::affordable(const Backoff& since, size_t settled) const {
  if (since.waited() >= since.most()) return std::numeric_limits<double>::infinity();
  return kLearningLoss * since.waited() * round_seconds_[settled];
}

// Guesses more than settled, to measure what lies there: one where that is not known, else as many as do not
// cost too much. So a step in the costs is overcome, where one more guess alone gains nothing, and is not
// run into again and again.
size_t DepthController::stretch_of(size_t settled) const {
  size_t most = settled;
  if (cost_->widest() <= count_ + static_cast<int>(settled)) ++most;
  const double most_loss = affordable(stretch_, settled);
  for (size_t guesses = settled + 1; guesses < rates_.size(); ++guesses) {
    if (2 * loss_of(guesses, settled) <= most_loss) most = guesses;
  }
  return most - settled;
}

void DepthController::apply(std::span<DraftPlan> sequences, size_t guesses, bool learning) {
  DraftWork work;
  for (size_t i = 0; i < guesses; ++i) {
    DraftPlan& sequence = sequences[static_cast<size_t>(order_[i])];
    const Choice& choice = choices_[static_cast<size_t>(order_[i])];
    drafts_.add(work, choice.option->drafter, sequence.depth, round_seconds_[0]);
    sequence.chosen = *choice.option;
    tokens_ += choice.reach[static_cast<size_t>(sequence.depth++)];
  }
  rows_ = count_ + static_cast<int>(guesses);
  seconds_ = cost_->at(rows_) + work.seconds;
  for (size_t i = 0; i < sequences.size(); ++i) {
    DraftPlan& sequence = sequences[i];
    if (sequence.depth > 0) sequence.record->drafter = sequence.chosen.drafter;
    if (sequence.depth > 0 && last_guesses_ > 0) {  // for its worth
      const auto drafter = static_cast<size_t>(sequence.chosen.drafter);
      const auto match = static_cast<size_t>(sequence.chosen.match);
      sequence.record->estimates[drafter][match].backoff.found();
      shared_[drafter][match].backoff.found();
    }
    explain(sequence, choices_[i], learning);
  }
}

// One guess of one parked drafter, if its time has come.
void DepthController::probe(std::span<DraftPlan> sequences, int most_rows) {
  bool probed = rows_ >= most_rows;
  for (DraftPlan& sequence : sequences) {
    for (int i = 0; i < sequence.option_count; ++i) {
      const DraftOption& option = sequence.options[static_cast<size_t>(i)];
      const auto drafter = static_cast<size_t>(option.drafter), match = static_cast<size_t>(option.match);
      if (option.most < 1 || dropped_[drafter]) continue;
      if (sequence.depth > 0 && sequence.chosen.drafter == option.drafter) continue;
      Backoff& backoff = sequence.record->estimates[drafter][match].backoff;
      if (!backoff.due() || probed) continue;
      probed = true;
      backoff.tried();
      shared_[drafter][match].backoff.start_from(backoff);
      sequence.chosen = option;
      sequence.depth = 1;
      sequence.probe = true;
      break;
    }
  }
}

void DepthController::explain(DraftPlan& sequence, const Choice& choice, bool learning) const {
  Decision& decision = sequence.decision;
  decision = {};
  if (choice.option == nullptr) {
    decision.kind = Decision::Kind::kNothing;
    return;
  }
  const double plain = cost_->at(count_);
  decision.acceptance = choice.reach[0];
  decision.depth = sequence.depth;
  decision.drafter_index = choice.option->drafter;
  if (learning) {
    decision.kind = Decision::Kind::kLearning;
  } else if (sequence.depth > 0) {
    decision.kind = Decision::Kind::kChosen;
    for (int i = 0; i < sequence.depth; ++i) decision.tokens += choice.reach[static_cast<size_t>(i)];
    decision.cost = seconds_ / plain;
  } else {
    DraftWork work;
    drafts_.add(work, choice.option->drafter, 0, plain);
    decision.kind = Decision::Kind::kParked;
    decision.cost = (cost_->at(count_ + 1) + work.seconds) / plain;
  }
}

void DepthController::plan(std::span<DraftPlan> sequences, int most_rows) {
  for (DraftPlan& sequence : sequences) {
    sequence.chosen = {};
    sequence.depth = 0;
    sequence.probe = false;
    sequence.decision = {.kind = Decision::Kind::kLearning};
  }
  if (sequences.empty()) return;
  count_ = static_cast<int>(sequences.size());
  cost_ = &curve(count_);
  first_ = sequences.data();
  rows_ = count_;
  tokens_ = count_;
  seconds_ = 0;
  choices_.assign(sequences.size(), {});
  if (options_.fixed >= 0) return plan_fixed(sequences, most_rows);
  // Without the cost of plain decoding there is nothing to compare with.
  if (plain_seconds(count_) == 0) return;
  for (size_t i = 0; i < sequences.size(); ++i) choose(sequences[i], choices_[i]);
  bool learning = false;
  const size_t guesses = execute(settle(walk(sequences, most_rows)), learning);
  apply(sequences, guesses, learning);
  if (!learning) probe(sequences, most_rows);
  rows_left_ = std::min(most_rows, cost_->widest() + count_) - rows_;
}

// The given depth, by whoever is expected to get furthest; the others are tried now and then.
void DepthController::plan_fixed(std::span<DraftPlan> sequences, int most_rows) {
  const int room = std::max(0, (most_rows - count_) / count_);
  for (DraftPlan& sequence : sequences) {
    double best = 0;
    std::array<double, kMostDepth> reach;
    for (int i = 0; i < sequence.option_count; ++i) {
      const DraftOption& option = sequence.options[static_cast<size_t>(i)];
      const int depth = std::min({option.most, options_.fixed, room});
      if (depth < 1 || dropped_[static_cast<size_t>(option.drafter)]) continue;
      fill_reach(*sequence.record, option, reach);
      double tokens = 0;
      for (int guess = 0; guess < depth; ++guess) tokens += reach[static_cast<size_t>(guess)];
      Backoff& backoff =
          sequence.record->estimates[static_cast<size_t>(option.drafter)][static_cast<size_t>(option.match)]
              .backoff;
      if (option.drafter != sequence.record->drafter && backoff.due()) {
        backoff.tried();
        tokens += kMostDepth;
      }
      if (tokens <= best) continue;
      best = tokens;
      sequence.chosen = option;
      sequence.depth = depth;
    }
    sequence.record->drafter = sequence.chosen.drafter;
    sequence.decision = {.kind = sequence.depth > 0 ? Decision::Kind::kFixed : Decision::Kind::kNothing,
                         .drafter_index = sequence.chosen.drafter,
                         .depth = sequence.depth};
  }
  rows_left_ = 0;
}

int DepthController::extend(DraftPlan& sequence, const DraftOption& option, int depth) {
  const int most = std::min(option.most, options_.most - depth);
  if (options_.fixed >= 0) return std::clamp(options_.fixed - depth, 0, std::max(most, 0));
  if (sequence.decision.kind != Decision::Kind::kChosen || sequence.probe || depth < 1) return 0;
  const Choice& choice = choices_[static_cast<size_t>(&sequence - first_)];
  const double before = choice.reach[static_cast<size_t>(std::min(depth, kMostDepth) - 1)];
  std::array<double, kMostDepth> reach;
  fill_reach(*sequence.record, option, reach);
  const double drafting = seconds_ - cost_->at(rows_);
  for (; sequence.depth > depth; --sequence.depth, --rows_, ++rows_left_) {  // guesses it did not get
    tokens_ -= choice.reach[static_cast<size_t>(sequence.depth - 1)];
  }
  seconds_ = cost_->at(rows_) + drafting;
  double tokens = tokens_, best_tokens = tokens_;
  double best = tokens_ / seconds_;
  int extra = 0;
  for (int i = 0; i < std::min(most, rows_left_); ++i) {
    tokens += before * reach[static_cast<size_t>(i)];
    const double rate = tokens / (cost_->at(rows_ + i + 1) + drafting);
    if (rate > best) best = rate, best_tokens = tokens, extra = i + 1;
  }
  rows_ += extra;
  rows_left_ -= extra;
  tokens_ = best_tokens;
  seconds_ = cost_->at(rows_) + drafting;
  return extra;
}

}  // namespace slip::speculate
