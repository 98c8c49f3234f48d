#include "kv/prefix_unit.h"

#include <algorithm>

namespace slip::kv {
namespace {

/// The first span that ends behind a position.
std::span<const MediaSpan>::iterator first_behind(std::span<const MediaSpan> media, int position) {
  return std::partition_point(media.begin(), media.end(), [position](const MediaSpan& span) {
    return span.first + span.rows <= position;
  });
}

/// Calls `with` for every run of media in the unit, in order, until it says no.
template <typename With>
bool all_runs(const Content& content, int first, With with) {
  const int end = first + kHashUnit;
  for (auto span = first_behind(content.media, first); span != content.media.end() && span->first < end;
       ++span) {
    const int begin = std::max(span->first, first), stop = std::min(span->first + span->rows, end);
    if (!with(MediaRun{
            .first = begin - first, .rows = stop - begin, .offset = begin - span->first, .key = span->key}))
      return false;
  }
  return true;
}

std::span<const int> tokens_of(const Content& content, int first) {
  return content.tokens.subspan(static_cast<size_t>(first), kHashUnit);
}

}  // namespace

Unit unit_at(const Content& content, int first) {
  Unit unit;
  std::ranges::copy(tokens_of(content, first), unit.tokens.begin());
  all_runs(content, first, [&](const MediaRun& run) {
    unit.media.push_back(run);
    return true;
  });
  return unit;
}

bool holds(const Unit& unit, const Content& content, int first) {
  size_t runs = 0;
  return std::ranges::equal(unit.tokens, tokens_of(content, first)) &&
         all_runs(
             content, first,
             [&](const MediaRun& run) { return runs < unit.media.size() && unit.media[runs++] == run; }) &&
         runs == unit.media.size();
}

PageKey unit_key(const PageKey& before, const Content& content, int first) {
  const std::span<const int> tokens = tokens_of(content, first);
  PageKey key = before;
  int done = 0;
  const auto add_tokens = [&](int end) {
    if (end > done)
      key = chain(key, tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(end - done)));
  };
  all_runs(content, first, [&](const MediaRun& run) {
    add_tokens(run.first);
    key = chain(key, run.key, run.offset, run.rows);
    done = run.first + run.rows;
    return true;
  });
  add_tokens(kHashUnit);
  return key;
}

const MediaSpan* span_across(std::span<const MediaSpan> media, int position) {
  const auto span = first_behind(media, position);
  return span != media.end() && span->both_ways && span->first < position ? &*span : nullptr;
}

}  // namespace slip::kv
