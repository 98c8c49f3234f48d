#include "cli/terminal/closest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace slip::cli {

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table suffice: a swap looks two rows back.
  std::vector<int> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({replaced, previous[j] + 1, current[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty() || word.size() > 64) return std::nullopt;
  const int allowed = std::clamp(static_cast<int>(word.size()) / 3, 1, 3);
  int best = allowed + 1;
  std::optional<std::string> found;
  for (const std::string& candidate : candidates) {
    int distance = edit_distance(word, candidate);
    if (word.size() >= 3 && candidate.starts_with(word)) distance = std::min(distance, 1);
    if (distance < best && distance < static_cast<int>(candidate.size())) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const auto guess = closest(word, candidates);
  return guess ? fmt::format("; did you mean '{}'?", *guess) : "";
}

}  // namespace slip::cli
