// The specification of a DFlash block drafter (model/dflash.h) in plain float loops: extend() takes the
// target's taps into the drafter's own context, run_block() guesses a block after it and leaves no trace.
#pragma once

#include <vector>

#include "model/dflash.h"
#include "reference/forward.h"

namespace slip::reference {

class Dflash {
 public:
  /// All of them must outlive this. The target lends its embedding and its head.
  Dflash(const model::DflashConfig& config, const model::DflashWeights& weights, const model::Weights& target)
      : config_(config), weights_(weights), target_(target) {}

  /// Called with every product, for sensitivity.h.
  void disturb(Disturb how) { tables_.disturb = std::move(how); }

  /// Appends positions to the context, one per row of taps: [taps * hidden], in the order of config.taps.
  void extend(Sequence& context, const std::vector<Row>& taps);
  /// Logits of the rows after the anchor: [rows - 1][vocab].
  std::vector<Row> run_block(const Sequence& context, int anchor, int rows);

 private:
  /// Appends key and value of one input at the next position of `stored`.
  void append(KeyValues& stored, int layer, const Row& x);
  void run_layer(std::vector<Row>& streams, int layer, const Sequence& context);

  const model::DflashConfig& config_;
  const model::DflashWeights& weights_;
  const model::Weights& target_;
  Tables tables_;
};

}  // namespace slip::reference
