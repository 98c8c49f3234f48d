// Round: one step of the engine, from the rows it may have to the tokens that came out. Four calls in order:
//
//   grant   the scheduler says how many rows each sequence brings and how many guesses may follow them; they take
//           pages for their rows, and where there are none left the youngest sequence is put aside
//   draft   the speculator guesses within that
//   run     one pass of the model over all rows
//   settle  every sequence samples from its outputs, keeps what is right, and tells its client
//
// A round without a speculator is plain decoding, and a prompt is a sequence with more than one row of known
// tokens. Keeps its memory from round to round; nothing allocates but reserve().
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/load_meter.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_cost.h"
#include "sample/sampler.h"
#include "speculate/speculator.h"

namespace slip::engine {

class Round {
 public:
  struct Options {
    int mixed_prompt_rows = 128;
    int draft_sequences = 0;  // with more of them decoding, nobody guesses; 0 = no such bound
  };
  /// All must outlive the round; `speculator` may be null.
  Round(backend::Backend& backend, const Scheduler& scheduler, speculate::Speculator* speculator,
        const Options& options);

  using Running = std::span<const std::unique_ptr<Sequence>>;
  /// The four steps.
  void step(Running running, LoadMeter& meter);
  /// Takes a sequence's pages away; whoever owns it makes it wait.
  void put_aside(Sequence& sequence);

 private:
  /// What one sequence brings, and where its results are.
  struct Part {
    Sequence* sequence = nullptr;
    int known = 0;    // rows of known tokens
    int guesses = 0;  // rows behind them
    int outputs = 0;  // rows that want output
    bool decoding = false;
    int rows() const { return known + guesses; }
  };

  void grant(Running running);
  bool take_pages(Part& part, Running running);
  bool grow(const Sequence& sequence, int rows);
  Sequence* youngest_behind(const Sequence& sequence, Running running) const;
  Budget budget(Running running);
  void draft();
  bool crowded() const;
  bool run();
  void settle(LoadMeter& meter);
  StepTimes times_of_step();
  speculate::Pass pass_of(const Part& part, int kept, int first_row, int first_output) const;

  backend::Backend& backend_;
  const Scheduler& scheduler_;
  speculate::Speculator* const speculator_;
  const Options options_;
  sample::Sampler sampler_;
  StepCost cost_;

  std::vector<Need> needs_;  // per sequence
  std::vector<int> granted_;
  uint64_t turn_ = 0;                                  // the last sequence that decoded when not all could
  int guesses_ = 0;                                    // that all may have together
  std::vector<Part> parts_;                            // of sequences with rows in this step
  std::vector<const speculate::SequenceView*> views_;  // of those that somebody guesses for
  std::vector<backend::Row> rows_;
  std::vector<kv::Cache*> caches_;
  std::vector<kv::Cache*> draft_caches_;  // of one sequence
  backend::Output output_;
  double seconds_ = 0;  // of the pass
};

}  // namespace slip::engine
