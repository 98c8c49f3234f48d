// The line of statistics after an answer: how fast it was, and how that compares with what the memory can
// deliver.
#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "backend/backend.h"
#include "engine/request.h"

namespace slip::cli {

struct SpeedReport {
  engine::Stats stats;
  double bytes_per_pass = 0;  // read by a decode step: weights, and the cache at the middle of the answer
  double read_bandwidth = 0;  // bytes per second measured in this process; 0 = not measured

  double prompt_rate() const;  // tokens per second
  double decode_rate() const;  // 0 when only one token was written
  double pass_rate() const;    // passes per second; several tokens may come out of one
  double decode_bandwidth() const { return pass_rate() * bytes_per_pass; }
};

/// Measures the read bandwidth too, which takes a moment, unless nothing was decoded.
SpeedReport measure(backend::Backend& backend, const engine::Stats& stats);

/// Three digits are what a measurement is good for: "1.23", "12.3", "123".
std::string rate_text(double rate);

/// "prompt 23 tokens, 142 tok/s | answer 128 tokens, 25.3 tok/s, 31.2 GB/s, 82 % of 38.0 GB/s | first token
/// 0.21 s"
std::string statistics_text(const SpeedReport& report);
/// "42 passes, 3.10 tokens per pass | 88 of 120 guesses accepted (1: 81 %, ...) | mtp in 40 passes, ...";
/// empty when nothing was decoded.
std::string acceptance_text(const speculate::Statistics& statistics);
/// The same, the time it took, and what was chosen last.
std::string speculation_text(const speculate::Statistics& statistics);
nlohmann::ordered_json statistics_json(const SpeedReport& report);
nlohmann::ordered_json speculation_json(const speculate::Statistics& statistics);

}  // namespace slip::cli
