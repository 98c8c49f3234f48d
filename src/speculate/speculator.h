// Speculator: what the engine knows of speculation. It owns the drafters and the depth controller, and brings
// them together: lookups are asked first because they cost nothing, the controller decides who guesses for
// whom and how deep, and where a long match goes on after a network's guesses, they are extended by it.
//
// It trusts nobody: guesses outside the vocabulary, and too many of them, are cut off; a drafter that throws is dropped for the rest of the process, with a sentence in failures(). None
// of this can reach the output, which is the model's own in any case (round.h).
//
// Used from the thread that steps the engine. begin() takes memory; nothing else allocates, failures apart.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "speculate/depth.h"
#include "speculate/drafter.h"
#include "speculate/round.h"

namespace slip::speculate {

/// The guesses for one sequence: `own` of them by one drafter, the rest by another that went on after it.
struct Guesses {
  std::span<const int> tokens;
  int own = kMostDepth;
  const char* by = "";
  const char* then = "";
  const char* drafter_of(int guess) const { return guess < own ? by : then; }
};

/// Clock reading in seconds, so that tests can bring their own.
using ReadClock = double (*)();

class Speculator {
 public:
  Speculator(std::vector<std::unique_ptr<Drafter>> drafters, int vocab, const DepthOptions& options = {},
             ReadClock clock = nullptr);

  /// Of the caches that drafters keep beside the target's, in pages of the same pool.
  std::span<const kv::Layout* const> layouts() const { return layouts_; }
  /// The caches themselves, in the same order; null where a drafter keeps none of this sequence.
  void caches(uint64_t id, std::vector<kv::Cache*>& caches);
  /// Floats of one row of taps; 0 if no drafter reads them.
  size_t tap_floats() const { return tap_floats_; }
  bool reads_hidden() const { return reads_hidden_; }

  /// The sequence was admitted. The view must outlive it.
  void begin(const SequenceView& view);
  /// Guesses for sequences that are decoding; together they may bring `most_rows` rows to the pass, each at
  /// most `sequence_rows`. guesses(i) is for views[i] and lives until the next call.
  void propose(std::span<const SequenceView* const> views, int most_rows, int sequence_rows);
  Guesses guesses(size_t index) const;
  const Decision& decision(size_t index) const { return plans_[index].decision; }
  /// Seconds the last propose() took.
  double draft_seconds() const { return draft_seconds_; }

  /// A pass is done: its seconds, and whether it had decoding sequences alone.
  void passed(int rows, int sequences, double seconds, bool decoding_only);
  /// What became of the first `granted` guesses of the last propose().
  void judged(const SequenceView& view, int granted, const Outcome& outcome);
  /// Rows were kept, of a prompt or of a round; not called for the last round of a sequence.
  void committed(const SequenceView& view, const Pass& pass);
  void settled(uint64_t id);

  /// Seconds of a plain pass over so many sequences, on average; 0 while unknown.
  double plain_seconds(int sequences) const { return controller_.mean_plain_seconds(sequences); }
  /// One sentence for each drafter that was dropped.
  const std::vector<std::string>& failures() const { return failures_; }
  std::span<const std::unique_ptr<Drafter>> drafters() const { return drafters_; }

 private:
  struct State {
    Record record;
    // Of the last propose(): guesses [0, own) are by `drafter`, the rest by `then`.
    int drafter = -1, match = 0, own = 0;
    int asked = 0;  // of `drafter`
    int then = -1, then_match = 0;
  };
  struct Slot {
    const SequenceView* view = nullptr;
    State* state = nullptr;
    std::vector<int> drafts;  // the result
  };

  template <typename Work>
  void guard(size_t drafter, Work&& work);
  void look_up(size_t drafter, int sequence_rows);
  void draft(size_t drafter);
  void ask(size_t drafter);
  void extend(size_t drafter, size_t index);
  void sanitise(std::vector<int>& drafts, size_t from, int most) const;
  int room(const Slot& slot, int sequence_rows) const;

  std::vector<std::unique_ptr<Drafter>> drafters_;
  std::vector<bool> dropped_;
  const int vocab_;
  size_t tap_floats_ = 0;
  bool reads_hidden_ = false;
  ReadClock clock_;
  DepthController controller_;
  std::unordered_map<uint64_t, State> states_;
  std::vector<std::string> failures_;
  std::vector<const kv::Layout*> layouts_;

  // Of the round at hand; index i belongs to views[i].
  size_t count_ = 0;
  int sequence_rows_ = 0;
  double draft_seconds_ = 0;
  std::vector<Slot> slots_;
  std::vector<DraftPlan> plans_;
  std::vector<std::vector<Proposal>> lookups_;  // per drafter
  std::vector<Proposal> proposals_;             // to one drafter
  std::vector<size_t> asked_;                   // whose they are
};

}  // namespace slip::speculate
