// DepthController: who guesses for which sequence and how deep, by measured value. A pure object without a
// clock: it is told seconds and acceptance and answers with the plan of a round.
//
// The plan maximises expected committed tokens per second of the whole batch. A guess is worth the
// probability that it and all before it are right; a round costs a pass of all rows (measured by width and by
// number of sequences, so a mixture of experts needs no theory) and the work of the drafters. Guesses are
// added in order of their worth, and the best point of that path is taken, so a dip (the price of a drafter's
// first step) does not hide what lies behind it. Depth 0 everywhere is the beginning of the path: plain.
//
// It must never lose against plain decoding for long. Widths are explored one guess beyond those measured. A
// drafter that is not worth its cost is parked and tried again with one guess after 4, 8, ... 512 rounds; a
// plan that stays is stretched by a guess or more as rarely, and replaced by a plain round every 16 to 64;
// both wait until what that loses, as far as is known, is a hundredth of the time since the last try. A plan
// changes for a gain of 1 % (the drafter for 5 %), but never stays below plain.
//
// Cost: a few microseconds for one sequence. Nothing allocates but reserve().
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "speculate/acceptance.h"
#include "speculate/cost.h"
#include "speculate/decision.h"
#include "speculate/draft_cost.h"

namespace slip::speculate {

// Guesses that were looked up are valued by the length of the match behind them: 2, 3-4, 5-8, 9-16, longer.
inline constexpr int kMatchClasses = 5;
int match_class(int match);

/// Intervals that double until something is found.
class Backoff {
 public:
  explicit Backoff(int first = 4, int most = 512) : first_(first), most_(most), interval_(first) {}
  /// Counts a round; true when it is time to try.
  bool due() { return ++waited_ >= interval_; }
  void tried() {
    waited_ = 0;
    interval_ = std::min(most_, 2 * interval_);
  }
  void found() { interval_ = first_, waited_ = 0; }
  int waited() const { return waited_; }
  int most() const { return most_; }
  void start_from(const Backoff& other) { interval_ = other.interval_; }

 private:
  int first_, most_, interval_, waited_ = 0;
};

/// What was learnt of one drafter (and match class) for one sequence, or for all together.
struct Estimate {
  Acceptance acceptance;
  Backoff backoff;
};
using Estimates = std::array<std::array<Estimate, kMatchClasses>, kMostDrafters>;

/// What the controller keeps of one sequence.
struct Record {
  Estimates estimates;
  int drafter = -1;  // of the last plan
};

/// Guesses a sequence could have in this round.
struct DraftOption {
  int drafter = -1;
  int match = 0;  // class
  int most = 0;   // guesses
};

/// One sequence in a plan: what is option_count, and what was decided.
struct DraftPlan {
  Record* record = nullptr;
  std::array<DraftOption, kMostDrafters> options;
  int option_count = 0;

  DraftOption chosen;  // drafter -1 = none
  int depth = 0;       // guesses to make
  bool probe = false;  // not for their worth, but to learn it
  Decision decision;
};

struct DepthOptions {
  int fixed = -1;  // guesses of every round; -1 = by measurement
  int most = kMostDepth;
};

class DepthController {
 public:
  /// One effort per drafter.
  DepthController(std::span<const Effort> efforts, const DepthOptions& options);

  /// Room for so many sequences.
  void reserve(int sequences);
  /// A record for a new sequence, from what the others taught.
  Record new_record() const;

  /// Decides for all decoding sequences; they have `most_rows` rows together.
  void plan(std::span<DraftPlan> sequences, int most_rows);
  /// How many of `option`'s guesses to append to the `depth` ones a sequence of the plan has got.
  int extend(DraftPlan& sequence, const DraftOption& option, int depth);
  /// The drafter does not work any more.
  void drop(int drafter) { dropped_[static_cast<size_t>(drafter)] = true; }

  /// Guesses of one round, in order: all before `accepted` were right, and if it is less than `judged`, that
  /// one was wrong.
  void judged(Record& record, int drafter, int match, int judged, int accepted);
  void drafted(int drafter, int sequences, int steps, int rows, double seconds) {
    drafts_.measured(drafter, sequences, steps, rows, seconds);
  }
  /// A pass with decoding sequences alone.
  void passed(int rows, int sequences, double seconds);
  /// Seconds of a plain pass over so many sequences as plans take it, without outliers; 0 while unknown.
  double plain_seconds(int sequences) const;
  /// The mean of the plain passes there were, with everything that disturbed them: what whole rounds, which
  /// are disturbed as much, can be compared with.
  double mean_plain_seconds(int sequences) const;

 private:
  // The option a sequence would use, and the probability that its guesses 0 .. i are all right.
  struct Choice {
    const DraftOption* option = nullptr;
    std::array<double, kMostDepth> reach;
  };
  // What is known of a round: the path of guesses in order of their worth, and what was taken of it.
  struct Plan {
    std::span<DraftPlan> sequences;
    int count = 0;  // of them
    int most_rows = 0;
    const CostCurve* cost = nullptr;
    std::vector<Choice> choices;        // per sequence
    std::vector<int> depths;            // per sequence, along the path
    std::vector<int> order;             // whose guess comes next on the path
    std::vector<double> worths;         // what it adds
    std::vector<double> rates;          // tokens per second after so many of them
    std::vector<double> round_seconds;  // likewise
    // What was taken: rows of the pass, rows that guesses after guesses may still have, tokens expected, seconds.
    int rows = 0, rows_left = 0;
    double tokens = 0, seconds = 0;

    double plain_seconds() const { return cost->at(count); }
  };

  void begin(std::span<DraftPlan> sequences, int most_rows);
  void plan_fixed(Plan& plan) const;
  void choose(const Plan& plan, const DraftPlan& sequence, Choice& choice) const;
  void fill_reach(const Record& record, const DraftOption& option, std::span<double> reach) const;
  double seconds_alone(const Plan& plan, const DraftOption& option, int guesses) const;
  /// Lays the path; returns how many of its guesses are best.
  size_t walk(Plan& plan) const;
  size_t settle(const Plan& plan, size_t best);
  size_t execute(const Plan& plan, size_t settled, bool& learning);
  static double loss_of(const Plan& plan, size_t guesses, size_t settled);
  static double affordable(const Plan& plan, const Backoff& since, size_t settled);
  size_t stretch_of(const Plan& plan, size_t settled) const;
  void apply(Plan& plan, size_t guesses, bool learning);
  void probe(const Plan& plan);
  void explain(const Plan& plan, size_t sequence, bool learning) const;
  CostCurve& curve(int sequences) { return pass_[bucket(sequences)]; }
  static size_t bucket(int sequences);

  static constexpr size_t kBuckets = 11;
  DepthOptions options_;
  DraftCosts drafts_;
  Estimates shared_;
  std::array<bool, kMostDrafters> dropped_{};
  std::array<CostCurve, kBuckets> pass_;  // by the binary logarithm of the number of sequences
  struct Mean {
    double seconds = 0;
    int count = -1;  // the first one pays for cold caches
  };
  std::array<Mean, kBuckets> plain_passes_;
  // Plain decoding is what everything is compared with, and a machine's speed changes: it is measured again
  // every 64 rounds at least.
  Backoff plain_{16, 64}, stretch_{8};
  size_t last_guesses_ = 0, last_sequences_ = 0;
  size_t stretched_ = 0;  // guesses of a stretch to be repeated
  Plan plan_;             // of the round at hand; kept to keep its memory
};

}  // namespace slip::speculate
