// Steps of an assistant by the reference, its target's text included: what an executor's steps are compared with, and,
// while disturbed, how far rounding may move them (reference/sensitivity.h).
#pragma once

#include <vector>

#include "reference/assistant.h"
#include "reference/golden.h"
#include "support/draft_fixture.h"

namespace slip::test {

class DraftedSteps {
 public:
  /// Both must outlive this. The target has read as many tokens as the first step sees keys, from seed 5.
  DraftedSteps(const Pair& pair, const std::vector<reference::AssistantStep>& steps)
      : pair_(pair), steps_(steps) {}

  std::vector<float> logits(const reference::Disturb& disturb) const {
    return of(&reference::Result::logits, disturb);
  }
  std::vector<float> hidden(const reference::Disturb& disturb) const {
    return of(&reference::Result::hidden, disturb);
  }

 private:
  std::vector<float> of(reference::Row reference::Result::*part, const reference::Disturb& disturb) const {
    TargetRun target(*pair_.target, disturb);
    std::vector<int> tokens;
    for (int i = 0; i < steps_.front().keys; ++i) tokens.push_back(token_at(pair_.target->config, 5, i));
    target.feed(tokens);
    reference::Assistant network(pair_.assistant->config, pair_.assistant->weights, pair_.target->config,
                                 pair_.target->weights);
    network.disturb(disturb);
    std::vector<float> all;
    for (const reference::AssistantStep& step : steps_) {
      const reference::Result result = network.step(target.sequence, step);
      all.insert(all.end(), (result.*part).begin(), (result.*part).end());
    }
    return all;
  }

  const Pair& pair_;
  const std::vector<reference::AssistantStep>& steps_;
};

}  // namespace slip::test
