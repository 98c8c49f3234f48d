// Runs a LoadPlan: sends its requests over one thread and keeps what they met. The clock is real, so a run takes as long
// as it takes; `done` is told how far it is and may throw to end it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/load/load_plan.h"
#include "cli/load/load_sample.h"

namespace slip::cli {

/// All rounds of one target at one level.
struct LoadResult {
  size_t target = 0, level = 0;
  std::vector<LoadSample> samples = {};
  double seconds = 0;     // in which they were made, summed over the rounds
  double peak_bytes = 0;  // of the server's process, where /metrics tells; else 0
};

/// The model that a server names first. Throws Error when it does not answer as an OpenAI server does.
std::string first_model(const std::string& url, const std::string& key);

/// Throws Error when nothing at all was answered by a server.
std::vector<LoadResult> run_load(const LoadPlan& plan,
                                 const std::function<void(size_t done, size_t total)>& progress);

}  // namespace slip::cli
