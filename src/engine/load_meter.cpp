#include "engine/load_meter.h"

#include <algorithm>
#include <cmath>

namespace slip::engine {
namespace {

// Seconds of work after which what was seen counts by 1/e.
constexpr double kMemory = 10;

}  // namespace

void LoadMeter::Rate::add(double more, double in_seconds) {
  const double keep = std::exp(-in_seconds / kMemory);
  tokens = tokens * keep + more;
  seconds = seconds * keep + in_seconds;
}

void StepSizes::add(int step_tokens) {
  const auto place = std::lower_bound(kMost.begin(), kMost.end(), step_tokens);
  ++steps[static_cast<size_t>(place - kMost.begin())];
  tokens += static_cast<uint64_t>(step_tokens);
}

void LoadMeter::add(int prompt_rows, int tokens, double seconds) {
  sizes_.add(prompt_rows + tokens);
  if (prompt_rows > 0) {
    // Beside a prompt the rows that decode are few, and their share of the step is theirs by number.
    const double share = static_cast<double>(prompt_rows) / (prompt_rows + tokens);
    prompt_.add(prompt_rows, seconds * share);
    if (tokens > 0) decode_.add(tokens, seconds * (1 - share));
  } else if (tokens > 0) {
    decode_.add(tokens, seconds);
  }
}

}  // namespace slip::engine
