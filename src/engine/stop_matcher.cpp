#include "engine/stop_matcher.h"

#include <algorithm>

#include "base/check.h"

namespace slip::engine {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  size_t longest = 0;
  for (std::string& stop : stops) {
    SLIP_CHECK(!stop.empty());
    longest = std::max(longest, stop.size());
    Search search{.stop = std::move(stop), .fallback = {}};
    search.fallback.assign(search.stop.size() + 1, 0);
    for (size_t length = 1, shorter = 0; length < search.stop.size(); ++length) {
      while (shorter > 0 && search.stop[length] != search.stop[shorter]) shorter = search.fallback[shorter];
      if (search.stop[length] == search.stop[shorter]) ++shorter;
      search.fallback[length + 1] = shorter;
    }
    searches_.push_back(std::move(search));
  }
  // Room for what is held back and a piece of usual size, so that a decode step does not allocate.
  pending_.reserve(longest + 1024);
}

void StopMatcher::Search::advance(char byte) {
  if (complete()) length = fallback[length];
  while (length > 0 && stop[length] != byte) length = fallback[length];
  if (stop[length] == byte) ++length;
}

std::string_view StopMatcher::push(std::string_view text) {
  pending_.erase(0, released_);
  released_ = 0;
  if (matched_) return {};
  size_t held = 0;
  for (const char byte : text) {
    pending_.push_back(byte);
    size_t match = 0;
    held = 0;
    for (Search& search : searches_) {
      search.advance(byte);
      held = std::max(held, search.length);
      if (search.complete()) match = std::max(match, search.length);
    }
    if (match > 0) {
      matched_ = true;
      pending_.resize(pending_.size() - match);
      released_ = pending_.size();
      return pending_;
    }
  }
  if (text.empty()) held = pending_.size();
  released_ = pending_.size() - held;
  return std::string_view(pending_).substr(0, released_);
}

std::string_view StopMatcher::flush() {
  pending_.erase(0, released_);
  released_ = pending_.size();
  for (Search& search : searches_) search.length = 0;
  return pending_;
}

}  // namespace slip::engine
