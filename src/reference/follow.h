// Follower: lets the reference read the keys and values that another executor has stored, in bf16, and judges
// those by themselves.
//
// Why. Two executors that round K and V alike still store different neighbours where a value lies within
// their float error of the middle between two: one in some thousand values, off by a whole unit of bf16. What
// such a flip does to the logits depends on the weights, so a bound on it would be a guess. With the flips
// followed, logits differ by float errors alone, for which sensitivity.h has a bound, and what was stored
// must be within half a unit of bf16 of what the reference has, plus that error.
//
// The executor runs one token ahead: it stores a position, then the reference computes it.
#pragma once

#include <functional>

#include "reference/forward.h"

namespace slip::reference {

class Follower {
 public:
  /// What the executor stored of a position: part 0 = keys, 1 = values; where K = V the one vector is part 0.
  using Read = std::function<Row(int layer, int part, int position)>;

  /// Sets forward.store. The forward must outlive the follower, and be used with one sequence.
  Follower(Forward& forward, const model::Config& config, Read read);

  /// To be called after each step.
  void next() { ++position_; }
  /// The largest error of a stored value beyond its rounding, over the root mean square of its vector.
  double worst() const { return worst_; }

 private:
  void take_over(Row& own, Row stored);

  Read read_;
  int position_ = 0;
  double worst_ = 0;
};

}  // namespace slip::reference
