#include "engine/load_meter.h"

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

void LoadMeter::add(int prompt_rows, int tokens, double seconds) {
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
