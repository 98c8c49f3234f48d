// The specification of an assistant (model/assistant.h): one draft step at a time, in plain float loops, over
// what reference::Forward has stored for the target's sequence. Nothing is stored here: an assistant owns no
// KV.
#pragma once

#include "model/assistant.h"
#include "reference/forward.h"

namespace slip::reference {

struct AssistantStep {
  int token = 0;       // whose successor is guessed
  Row hidden;          // [backbone] the target's after its final norm, then what the step before returned
  int position = 0;    // of the query's rotary embedding, the same for all steps of a round
  int keys = 0;        // it sees the target's positions [0, keys)
  int extra_keys = 0;  // sliding layers see the last window + extra_keys of them; 1 is transformers' rule
};

class Assistant {
 public:
  /// All of them must outlive this. `target` and its weights embed the tokens.
  Assistant(const model::AssistantConfig& config, const model::AssistantWeights& weights,
            const model::Config& target, const model::Weights& target_weights)
      : config_(config), weights_(weights), target_(target), target_weights_(target_weights) {}

  /// Called with every product, for sensitivity.h.
  void disturb(Disturb how) { tables_.disturb = std::move(how); }

  /// hidden: the input of the next step. logits: -infinity for tokens a centroid head did not score.
  Result step(const Sequence& target, const AssistantStep& step);

 private:
  void run_layer(Row& stream, int layer, const Sequence& target, const AssistantStep& step);
  Row head(const Row& y);

  const model::AssistantConfig& config_;
  const model::AssistantWeights& weights_;
  const model::Config& target_;
  const model::Weights& target_weights_;
  Tables tables_;
};

}  // namespace slip::reference
