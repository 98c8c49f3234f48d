// Scheduler: which rows make up the next step, and which requests may hold cache memory. Pure bookkeeping:
// numbers in, numbers out, no tensors and no sequences.
//
// A step takes one row of every decoding sequence first, so that a long prompt never stops a text that is
// being written; then drafts; then prompts, in equal shares, so that a short prompt does not wait behind a
// long one (what a prompt leaves of its share goes to the others, the older ones first). Every admitted
// sequence gets at least one row of each step, because there are never more sequences than rows.
//
// Memory is granted for the longest a sequence can become and in order of arrival: nobody overtakes, nobody
// starves, and a running sequence never has to be put aside.
#pragma once

#include <cstddef>
#include <span>

namespace slip::engine {

/// What one sequence could bring to a step.
struct Need {
  int known = 0;   // tokens that are not in its cache yet: 1 = decoding, more = a prompt
  int drafts = 0;  // guesses that follow them
};

class Scheduler {
 public:
  struct Limits {
    int step_rows = 1;          // in one step
    int sequence_rows = 1;      // of one sequence in one step
    int mixed_prompt_rows = 1;  // of prompts in a step that also decodes: bounds how long a text stalls
    int sequences = 1;          // at most step_rows
    size_t bytes = 0;           // of cache
  };
  explicit Scheduler(const Limits& limits);

  bool can_ever_admit(size_t bytes) const { return bytes <= limits_.bytes; }
  /// Takes a place and its bytes, or says no and takes nothing.
  bool admit(size_t bytes);
  void release(size_t bytes);

  /// Fills rows[i] with the number of rows that needs[i] contributes, oldest sequence first.
  void pick(std::span<const Need> needs, std::span<int> rows) const;

  const Limits& limits() const { return limits_; }
  size_t bytes_in_use() const { return bytes_; }

 private:
  Limits limits_;
  int sequences_ = 0;
  size_t bytes_ = 0;
};

}  // namespace slip::engine
