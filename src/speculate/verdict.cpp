#include "speculate/verdict.h"

#include <fmt/format.h>

namespace slip::speculate {

std::string sentence(const Verdict& verdict) {
  const char* drafter = verdict.drafter == nullptr ? "the drafter" : verdict.drafter;
  switch (verdict.kind) {
    case Verdict::Kind::kNone: return "no round yet";
    case Verdict::Kind::kLearning: return fmt::format("measuring what {} costs and brings", drafter);
    case Verdict::Kind::kChosen:
      return fmt::format("{} at depth {}: {:.2f} tokens expected for {:.2f} times a plain step", drafter,
                         verdict.depth, verdict.tokens, verdict.cost);
    case Verdict::Kind::kParked:
      return fmt::format("parked: {:.2f} accepted per guess of {} would cost {:.2f} times a plain step",
                         verdict.acceptance, drafter, verdict.cost);
    case Verdict::Kind::kNothing: return "plain: nobody had a guess";
    case Verdict::Kind::kFixed: return fmt::format("{} at depth {}, as told", drafter, verdict.depth);
  }
  return {};
}

}  // namespace slip::speculate
