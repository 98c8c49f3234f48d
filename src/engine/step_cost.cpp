#include "engine/step_cost.h"

#include <algorithm>

namespace slip::engine {
namespace {

constexpr double kMemory = 0.1;      // weight of a new sample
constexpr double kLeastGain = 1.05;  // for which sequences take turns
constexpr int kTrialEvery = 256;     // steps, until what looked worse is measured again
constexpr int kFirstTrialAfter = 16;
constexpr int kMostMixedSteps = 64;

}  // namespace

StepCost::Width& StepCost::at(int sequences) {
  return widths_[static_cast<size_t>(std::clamp(sequences, 0, kMostSequences))];
}

void StepCost::add(int sequences, int prompt_rows, int tokens, double seconds) {
  if (sequences < 1 || !(seconds > 0)) return;
  mixed_steps_ = prompt_rows > 0 ? mixed_steps_ + 1 : 0;
  if (prompt_rows > 0) {
    const double plain = decode_seconds(sequences);
    if (plain > 0) beside_.add(prompt_rows, std::max(seconds - plain, 0.01 * seconds));
    return;
  }
  Width& width = at(sequences);
  ++width.samples;
  const double weight = width.samples <= 2 ? 1 : std::max(kMemory, 1.0 / (width.samples - 1));
  width.seconds += weight * (seconds - width.seconds);
  width.tokens += weight * (tokens - width.tokens);
}

// Of the nearest number of sequences there was; 0 = none yet.
double StepCost::decode_seconds(int sequences) const {
  const int wanted = std::clamp(sequences, 1, kMostSequences);
  for (int away = 0; away < kMostSequences; ++away) {
    for (const int near : {wanted - away, wanted + away}) {
      if (near < 1 || near > kMostSequences) continue;
      const Width& width = widths_[static_cast<size_t>(near)];
      if (width.samples > 0) return width.seconds;
    }
  }
  return 0;
}

int StepCost::sequences(int available) {
  if (available > kMostSequences) return available;
  if (available <= 1 || !at(available).known()) return available;
  if (at(available).seconds < kShortStep) return available;
  int best = available;
  for (int fewer = 1; fewer < available; ++fewer) {
    const Width& width = at(fewer);
    if (width.known() && width.rate() > kLeastGain * at(best).rate()) best = fewer;
  }
  if (--until_trial_ > 0) return best;
  until_trial_ = kTrialEvery;
  if (best < available) return available;
  if (narrow_ > 0 && narrow_ < available) {
    if (!at(narrow_).known()) until_trial_ = kFirstTrialAfter;
    return narrow_;
  }
  return best;
}

int StepCost::prompt_rows(int sequences, int most) const {
  const int least = std::min(kLeastPromptRows, most);
  if (sequences < 1) return most;
  const double plain = decode_seconds(sequences);
  if (plain == 0 || mixed_steps_ >= kMostMixedSteps) return 0;
  if (plain < kShortStep) return most;
  if (!beside_.measured()) return least;
  const double room = (kMostStretch - 1) * plain;
  int fits = least, too_many = most + 1;
  while (fits + 1 < too_many) {
    const int middle = (fits + too_many) / 2;
    (beside_.at(middle) <= room ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace slip::engine
