#include "speculate/decision.h"

#include <fmt/format.h>

namespace slip::speculate {

std::string sentence(const Decision& decision) {
  const char* drafter = decision.drafter == nullptr ? "the drafter" : decision.drafter;
  switch (decision.kind) {
    case Decision::Kind::kNone: return "no round yet";
    case Decision::Kind::kLearning: return fmt::format("measuring what {} costs and brings", drafter);
    case Decision::Kind::kChosen:
      return fmt::format("{} at depth {}: {:.2f} tokens expected for {:.2f} times a plain step", drafter,
                         decision.depth, decision.tokens, decision.cost);
    case Decision::Kind::kParked:
      return fmt::format("parked: {:.2f} accepted per guess of {} would cost {:.2f} times a plain step",
                         decision.acceptance, drafter, decision.cost);
    case Decision::Kind::kNothing: return "plain: nobody had a guess";
    case Decision::Kind::kFixed: return fmt::format("{} at depth {}, as told", drafter, decision.depth);
  }
  return {};
}

}  // namespace slip::speculate
