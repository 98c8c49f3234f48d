// Scheduler: which rows make up the next step. Pure bookkeeping: numbers in, numbers out, no tensors and no sequences.
//
// A step takes one row of every decoding sequence first, so that a long prompt never stops a text that is
// being written. Then room is granted for guesses, before anybody makes them; then prompts get what is left, in
// equal shares, so that a short prompt does not wait behind a long one (what a prompt leaves of its share goes
// to the others, the older ones first). There are never more sequences than rows, so every admitted one gets at
// least one row of each step, with two exceptions: where fewer decode together for their cost, they take turns;
// and a block that cannot be cut waits for a step with room.
#pragma once

#include <cstddef>
#include <span>

namespace slip::engine {

/// What one sequence could bring to a step.
struct Need {
  int known = 0;           // tokens that are not in its cache yet: 1 = decoding, more = a prompt
  bool guessable = false;  // it decodes, and somebody may guess what follows
  int block = 1;           // of the known, the first ones that must come together
};

/// What a step may hold, by what it costs.
struct Budget {
  int decodes = 1 << 20;      // sequences
  size_t first = 0;           // of them, in a circle
  int prompt_rows = 1 << 20;  // beside them; 0 = prompts wait
};

/// What the scheduler gives to a step: rows of known tokens for each sequence, and rows for guesses of all.
struct Grant {
  std::span<int> rows;
  int guesses = 0;
};

class Scheduler {
 public:
  struct Limits {
    int step_rows = 1;      // in one step
    int sequence_rows = 1;  // of one sequence in one step
    int sequences = 1;      // at most step_rows
    int guesses = 15;       // of one sequence in one step
  };
  explicit Scheduler(const Limits& limits);

  /// Fills grant.rows[i] with the number of rows that needs[i] contributes, oldest sequence first, and says how
  /// many guesses may follow them.
  void grant(std::span<const Need> needs, const Budget& budget, Grant& grant) const;

  const Limits& limits() const { return limits_; }

 private:
  Limits limits_;
};

}  // namespace slip::engine
