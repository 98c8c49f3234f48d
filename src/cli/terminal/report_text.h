// The line of statistics after an answer, for people and as JSON.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "session/report.h"

namespace slip::cli {

/// Three digits are what a measurement is good for: "1.23", "12.3", "123".
std::string rate_text(double rate);

/// "prompt 23 tokens, 142 tok/s | answer 128 tokens, 25.3 tok/s, 31.2 GB/s, 82 % of 38.0 GB/s | first token
/// 0.21 s"
std::string statistics_text(const session::Report& report);
/// "42 passes, 3.10 tokens per pass | 88 of 120 guesses accepted (1: 81 %, ...) | mtp in 40 passes, ...";
/// empty when nothing was decoded.
std::string acceptance_text(const speculate::Statistics& statistics);
/// The same, the time it took, and what was chosen last.
std::string speculation_text(const speculate::Statistics& statistics);
nlohmann::ordered_json statistics_json(const session::Report& report);
nlohmann::ordered_json speculation_json(const speculate::Statistics& statistics);

}  // namespace slip::cli
