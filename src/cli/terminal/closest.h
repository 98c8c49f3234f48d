// Did-you-mean: the candidate nearest to a mistyped word, if one is near enough to be what was meant.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace slip::cli {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. O(|a| * |b|).
int edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest distance; the first of them on a tie. A third of the word may be wrong, at
/// least one letter and at most three; a candidate that begins with the word counts as one mistake.
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'generate'?" or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace slip::cli
