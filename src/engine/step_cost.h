// StepCost: what steps cost, learnt from those there were, and the two decisions that follow from it. A pure
// object without a clock.
//
// How many sequences decode together: as many as give the most tokens per second. Mostly that is all of them; a
// backend may have a path for few rows that is so much faster that taking turns gives everybody more. How wide
// a prompt chunk beside them may be: such that the step takes at most kMostStretch times as long as without it.
#pragma once

#include <array>

#include "speculate/cost.h"

namespace slip::engine {

class StepCost {
 public:
  static constexpr int kMostSequences = 128;
  static constexpr int kLeastPromptRows = 16;
  static constexpr double kMostStretch = 3;
  // Steps shorter than this hurt nobody, and clocks tell little about them.
  static constexpr double kShortStep = 1e-3;

  /// `narrow`: so many rows a step may have for the backend's fastest path; 0 = it has one path.
  explicit StepCost(int narrow = 0) : narrow_(narrow) {}

  /// A step of so many decoding sequences that gave `tokens`, with so many rows of prompts beside them.
  void add(int sequences, int prompt_rows, int tokens, double seconds);

  /// How many of the decoding sequences to take into the next step. Now and then another number, to measure it.
  int sequences(int available);
  /// The most rows of prompts beside so many decoding sequences; now and then 0, to measure the step without any.
  int prompt_rows(int sequences, int most) const;

 private:
  /// Of decoding steps with one number of sequences.
  struct Width {
    double seconds = 0, tokens = 0;  // of a step, as of late
    int samples = 0;
    double rate() const { return tokens / seconds; }
    bool known() const { return samples >= 3; }  // the first may pay for cold caches
  };
  Width& at(int sequences);
  double decode_seconds(int sequences) const;

  const int narrow_;
  std::array<Width, kMostSequences + 1> widths_;
  speculate::CostCurve beside_{1.0 / kLeastPromptRows};  // seconds of prompt rows beside others
  int until_trial_ = 0;                                  // steps
  int mixed_steps_ = 0;                                  // since the last without prompts
};

}  // namespace slip::engine
