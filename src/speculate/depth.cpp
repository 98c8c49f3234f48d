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
  plan_.choices.reserve(count);
  plan_.depths.reserve(count);
  plan_.order.reserve(count * kMostDepth);
  plan_.worths.reserve(count * kMostDepth);
  plan_.rates.reserve(count * kMostDepth + 1);
  plan_.round_seconds.reserve(count * kMostDepth + 1);
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
double DepthController::seconds_alone(const Plan& plan, const DraftOption& option, int guesses) const {
  const double pass = plan.plain_seconds();
  return pass / plan.count + plan.cost->at(plan.count + guesses) - pass +
         drafts_.share(option.drafter, plan.count, guesses, pass);
}

// The option with the best rate, were the sequence alone; the one of the last round wins among equals.
void DepthController::choose(const Plan& plan, const DraftPlan& sequence, Choice& choice) const {
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
      rate = std::max(rate, tokens / seconds_alone(plan, option, guesses));
    }
    if (option.drafter == sequence.record->drafter) rate *= kDrafterHysteresis;
    if (rate <= best) continue;
    best = rate;
    choice = {.option = &option, .reach = reach};
  }
}

size_t DepthController::walk(Plan& plan) const {
  DraftWork work;
  double tokens = plan.count;
  const double plain = plan.plain_seconds();
  plan.depths.assign(plan.sequences.size(), 0);
  plan.order.clear();
  plan.worths.clear();
  plan.round_seconds.assign(1, plain);
  plan.rates.assign(1, tokens / plain);
  size_t best = 0;
  while (plan.count + static_cast<int>(plan.order.size()) < plan.most_rows) {
    int next = -1;
    double worth = kLeastReach;
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      const Choice& choice = plan.choices[i];
      const int depth = plan.depths[i];
      if (choice.option == nullptr || depth >= std::min(choice.option->most, options_.most)) continue;
      const double reach = choice.reach[static_cast<size_t>(depth)];
      if (reach > worth) worth = reach, next = static_cast<int>(i);
    }
    if (next < 0) break;
    const auto chosen = static_cast<size_t>(next);
    drafts_.add(work, plan.choices[chosen].option->drafter, plan.depths[chosen]++, plain);
    plan.order.push_back(next);
    plan.worths.push_back(worth);
    tokens += worth;
    plan.round_seconds.push_back(plan.cost->at(plan.count + static_cast<int>(plan.order.size())) +
                                 work.seconds);
    plan.rates.push_back(tokens / plan.round_seconds.back());
    if (plan.rates.back() > plan.rates[best]) best = plan.rates.size() - 1;
  }
  return best;
}

// The number of guesses to stay with: that of the last round unless another gains enough. What is worse than
// plain has no such right.
size_t DepthController::settle(const Plan& plan, size_t best) {
  const auto sequences = static_cast<size_t>(plan.count);
  if (last_sequences_ == sequences && last_guesses_ < plan.rates.size()) {
    const double last = plan.rates[last_guesses_];
    if (last * kDepthHysteresis >= plan.rates[best] && last >= plan.rates[0]) best = last_guesses_;
  }
  if (best > last_guesses_ && plan.count + static_cast<int>(best) >= plan.cost->widest()) stretch_.found();
  if (best == 0) plain_.found();
  last_guesses_ = best;
  last_sequences_ = sequences;
  return best;
}

// What is done now: mostly what was settled; one guess beyond the widths measured at most; now and then a
// guess more, or none, to learn whether that has become better.
size_t DepthController::execute(const Plan& plan, size_t settled, bool& learning) {
  const auto frontier = static_cast<size_t>(plan.cost->widest());
  learning = settled > frontier;
  if (learning) return frontier;
  if (settled > 0 && plain_.due() && loss_of(plan, 0, settled) <= affordable(plan, plain_, settled)) {
    plain_.tried();
    learning = true;
    return 0;
  }
  const size_t most = plan.order.size();
  if (settled < most && plan.cost->doubtful(plan.count + static_cast<int>(settled) + 1)) return settled + 1;
  if (stretched_ > 0) return std::min(settled + std::exchange(stretched_, 0), most);
  if (settled == most || plan.worths[settled] < kLeastStretch || !stretch_.due()) return settled;
  stretched_ = stretch_of(plan, settled);
  if (stretched_ == 0) return settled;
  stretch_.tried();
  return settled + stretched_;  // and once more in the next round: a first sample is thrown away
}

// Seconds by which a round with so many guesses takes longer for its tokens than the settled plan would.
double DepthController::loss_of(const Plan& plan, size_t guesses, size_t settled) {
  return plan.round_seconds[guesses] * (1 - plan.rates[guesses] / plan.rates[settled]);
}

// What may be lost by trying something again that was tried last when `since` says; any loss after so long
// that whatever was known then is out of date.
double DepthController::affordable(const Plan& plan, const Backoff& since, size_t settled) {
  if (since.waited() >= since.most()) return std::numeric_limits<double>::infinity();
  return kLearningLoss * since.waited() * plan.round_seconds[settled];
}

// Guesses more than settled, to measure what lies there: one where that is not known, else as many as do not
// cost too much. So a step in the costs is overcome, where one more guess alone gains nothing, and is not
// run into again and again.
size_t DepthController::stretch_of(const Plan& plan, size_t settled) const {
  size_t most = settled;
  if (plan.cost->widest() <= plan.count + static_cast<int>(settled)) ++most;
  const double most_loss = affordable(plan, stretch_, settled);
  for (size_t guesses = settled + 1; guesses < plan.rates.size(); ++guesses) {
    if (2 * loss_of(plan, guesses, settled) <= most_loss) most = guesses;
  }
  return most - settled;
}

void DepthController::apply(Plan& plan, size_t guesses, bool learning) {
  DraftWork work;
  for (size_t i = 0; i < guesses; ++i) {
    DraftPlan& sequence = plan.sequences[static_cast<size_t>(plan.order[i])];
    const Choice& choice = plan.choices[static_cast<size_t>(plan.order[i])];
    drafts_.add(work, choice.option->drafter, sequence.depth, plan.round_seconds[0]);
    sequence.chosen = *choice.option;
    plan.tokens += choice.reach[static_cast<size_t>(sequence.depth++)];
  }
  plan.rows = plan.count + static_cast<int>(guesses);
  plan.seconds = plan.cost->at(plan.rows) + work.seconds;
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    DraftPlan& sequence = plan.sequences[i];
    if (sequence.depth > 0) sequence.record->drafter = sequence.chosen.drafter;
    if (sequence.depth > 0 && last_guesses_ > 0) {  // for its worth
      const auto drafter = static_cast<size_t>(sequence.chosen.drafter);
      const auto match = static_cast<size_t>(sequence.chosen.match);
      sequence.record->estimates[drafter][match].backoff.found();
      shared_[drafter][match].backoff.found();
    }
    explain(plan, i, learning);
  }
}

// One guess of one parked drafter, if its time has come.
void DepthController::probe(const Plan& plan) {
  bool probed = plan.rows >= plan.most_rows;
  for (DraftPlan& sequence : plan.sequences) {
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

void DepthController::explain(const Plan& plan, size_t index, bool learning) const {
  DraftPlan& sequence = plan.sequences[index];
  const Choice& choice = plan.choices[index];
  Decision& decision = sequence.decision;
  decision = {};
  if (choice.option == nullptr) {
    decision.kind = Decision::Kind::kNothing;
    return;
  }
  const double plain = plan.plain_seconds();
  decision.acceptance = choice.reach[0];
  decision.depth = sequence.depth;
  decision.drafter_index = choice.option->drafter;
  if (learning) {
    decision.kind = Decision::Kind::kLearning;
  } else if (sequence.depth > 0) {
    decision.kind = Decision::Kind::kChosen;
    for (int i = 0; i < sequence.depth; ++i) decision.tokens += choice.reach[static_cast<size_t>(i)];
    decision.cost = plan.seconds / plain;
  } else {
    DraftWork work;
    drafts_.add(work, choice.option->drafter, 0, plain);
    decision.kind = Decision::Kind::kParked;
    decision.cost = (plan.cost->at(plan.count + 1) + work.seconds) / plain;
  }
}

void DepthController::begin(std::span<DraftPlan> sequences, int most_rows) {
  for (DraftPlan& sequence : sequences) {
    sequence.chosen = {};
    sequence.depth = 0;
    sequence.probe = false;
    sequence.decision = {.kind = Decision::Kind::kLearning};
  }
  plan_.sequences = sequences;
  plan_.count = static_cast<int>(sequences.size());
  plan_.most_rows = most_rows;
  plan_.choices.assign(sequences.size(), {});
  plan_.rows = plan_.count;
  plan_.rows_left = 0;
  plan_.tokens = plan_.count;
  plan_.seconds = 0;
}

void DepthController::plan(std::span<DraftPlan> sequences, int most_rows) {
  begin(sequences, most_rows);
  if (sequences.empty()) return;
  plan_.cost = &curve(plan_.count);
  if (options_.fixed >= 0) return plan_fixed(plan_);
  // Without the cost of plain decoding there is nothing to compare with.
  if (plain_seconds(plan_.count) == 0) return;
  for (size_t i = 0; i < sequences.size(); ++i) choose(plan_, sequences[i], plan_.choices[i]);
  bool learning = false;
  const size_t guesses = execute(plan_, settle(plan_, walk(plan_)), learning);
  apply(plan_, guesses, learning);
  if (!learning) probe(plan_);
  plan_.rows_left = std::min(most_rows, plan_.cost->widest() + plan_.count) - plan_.rows;
}

// The given depth, by whoever is expected to get furthest; the others are tried now and then.
void DepthController::plan_fixed(Plan& plan) const {
  const int room = std::max(0, (plan.most_rows - plan.count) / plan.count);
  for (DraftPlan& sequence : plan.sequences) {
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
    plan.rows += sequence.depth;
  }
  plan.rows_left = plan.most_rows - plan.rows;
}

int DepthController::extend(DraftPlan& sequence, const DraftOption& option, int depth) {
  const int most = std::min(option.most, options_.most - depth);
  Plan& plan = plan_;
  if (options_.fixed >= 0) {
    plan.rows_left += std::max(0, sequence.depth - depth);  // guesses it did not get
    sequence.depth = std::min(sequence.depth, depth);
    const int extra = std::clamp(std::min(options_.fixed - depth, plan.rows_left), 0, std::max(most, 0));
    plan.rows_left -= extra;
    return extra;
  }
  if (sequence.decision.kind != Decision::Kind::kChosen || sequence.probe || depth < 1) return 0;
  const Choice& choice = plan.choices[static_cast<size_t>(&sequence - plan.sequences.data())];
  const double before = choice.reach[static_cast<size_t>(std::min(depth, kMostDepth) - 1)];
  std::array<double, kMostDepth> reach;
  fill_reach(*sequence.record, option, reach);
  const double drafting = plan.seconds - plan.cost->at(plan.rows);
  for (; sequence.depth > depth; --sequence.depth, --plan.rows, ++plan.rows_left) {  // guesses it did not get
    plan.tokens -= choice.reach[static_cast<size_t>(sequence.depth - 1)];
  }
  plan.seconds = plan.cost->at(plan.rows) + drafting;
  double tokens = plan.tokens, best_tokens = plan.tokens;
  double best = plan.tokens / plan.seconds;
  int extra = 0;
  for (int i = 0; i < std::min(most, plan.rows_left); ++i) {
    tokens += before * reach[static_cast<size_t>(i)];
    const double rate = tokens / (plan.cost->at(plan.rows + i + 1) + drafting);
    if (rate > best) best = rate, best_tokens = tokens, extra = i + 1;
  }
  plan.rows += extra;
  plan.rows_left -= extra;
  plan.tokens = best_tokens;
  plan.seconds = plan.cost->at(plan.rows) + drafting;
  return extra;
}

}  // namespace slip::speculate
