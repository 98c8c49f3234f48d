#include "engine/shared_prefix.h"

#include <algorithm>

namespace slip::engine {
namespace {

bool same(const kv::MediaSpan& one, const kv::MediaSpan& other) {
  return one.first == other.first && one.rows == other.rows && one.key == other.key;
}

// Where the first span lies that the other has not.
int first_other_media(std::span<const kv::MediaSpan> one, std::span<const kv::MediaSpan> other, int most) {
  for (size_t i = 0; i < one.size(); ++i) {
    if (i >= other.size() || !same(one[i], other[i])) return std::min(most, one[i].first);
  }
  return most;
}

}  // namespace

int shared_prefix(const kv::Content& one, const kv::Content& other) {
  const size_t most = std::min(one.tokens.size(), other.tokens.size());
  const auto differ = std::mismatch(one.tokens.begin(), one.tokens.begin() + static_cast<ptrdiff_t>(most),
                                    other.tokens.begin());
  int shared = static_cast<int>(differ.first - one.tokens.begin());
  shared = first_other_media(one.media, other.media, shared);
  shared = first_other_media(other.media, one.media, shared);
  return shared / kv::kHashUnit * kv::kHashUnit;
}

}  // namespace slip::engine
