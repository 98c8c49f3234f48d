// TargetRun: a target fed token by token, with what drafters want from it: its stored keys and values, its hidden
// state, and the outputs of its layers. It may be disturbed, so that its rounding counts in what drafters are allowed
// (sensitivity.h).
#pragma once

#include <map>
#include <span>
#include <vector>

#include "reference/forward.h"

namespace slip::reference {

class TargetRun {
 public:
  /// Both must outlive this.
  TargetRun(const model::Config& config, const model::Weights& weights, const Disturb& disturb = {});

  void feed(std::span<const int> tokens);
  /// Rows of taps of the positions from `first` on.
  std::vector<Row> taps(const std::vector<int>& layers, size_t first) const;

  Sequence sequence;
  Row hidden;                                     // of the last token fed, after the final norm
  std::vector<std::map<int, Row>> layer_outputs;  // [position][layer]

 private:
  model::Program program_;
  Forward forward_;
  std::map<int, Row> outputs_;
};

}  // namespace slip::reference
