// Speculation measured end to end, through the engine: the same request decoded plainly and with drafters, in
// turns within one process, so that a slow minute of the machine falls on both. The tokens are compared; a
// difference ends the benchmark, since then the speed means nothing.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "session/drafters.h"
#include "speculate/statistics.h"

namespace slip::cli {

struct SpeculationPlan {
  int tokens = 128;  // of one answer
  int repeats = 5;   // answers of each way, after one of each to warm up
};

/// One kind of request, decoded both ways.
struct SpeculationResult {
  std::string task;  // "greedy", "sampled", "copy"
  double plain = 0;  // tokens per second, medians
  double drafted = 0;
  double ratio = 0;  // median over the pairs that ran one after the other
  double ratio_low = 0, ratio_high = 0;
  speculate::Statistics statistics = {};  // of all answers but the first
};

/// The model must follow every token t by t + 1 (synthetic pairs do): the prompts are made for that.
std::vector<SpeculationResult> run_speculation(backend::Backend& backend, session::Drafters& drafters,
                                               const SpeculationPlan& plan,
                                               const std::function<bool()>& interrupted);

nlohmann::ordered_json speculation_json(const std::vector<SpeculationResult>& results);
std::string speculation_table(const std::vector<SpeculationResult>& results);

}  // namespace slip::cli
