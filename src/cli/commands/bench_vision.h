// bench --vision: how long the tower takes for a picture of 1024 x 768 at each budget, and which share of the arithmetic
// peak its products reach; and what comes before it, from a JPEG file of twelve megapixels to patches.
//
// Shares count processor time, so that what else the machine runs falls out; seconds are what a person waits.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/vision.h"
#include "session/options.h"

namespace slip::cli {

struct VisionPlan {
  std::vector<int> budgets = {70, 280, 1120};
  int repeats = 3;
};

struct VisionResult {
  int budget = 0, patches = 0, soft_tokens = 0;
  double seconds = 0;            // of one picture, by the clock
  double processor_seconds = 0;  // of all threads, over their number
  double product_rate = 0;       // operations per second of a thread: products, with norms and rounding
  double attention_rate = 0;     // 0 where there is none
};

struct VisionReport {
  std::string tower;    // "16 layers of 768, 12 heads of 64"
  double peak = 0;      // operations per second of a thread
  bool narrow = false;  // products of bf16
  int threads = 0;
  size_t bytes = 0;  // of packed weights
  std::vector<VisionResult> budgets = {};
  double decode_seconds = 0;  // of the JPEG, the worker's start included

  std::string markdown() const;
  nlohmann::ordered_json json() const;
};

/// On the CPU. `interrupted` is asked between slices; when it says yes the run ends with Error(kRuntime).
VisionReport run_vision(const model::VisionConfig& config, const model::VisionWeights& weights,
                        const session::BackendOptions& options, const VisionPlan& plan,
                        const std::function<bool()>& interrupted);

}  // namespace slip::cli
