#include "server/api/found_stop.h"

#include <algorithm>

namespace slip::server::api {

FoundStop::FoundStop(const text::Tokenizer& tokenizer, std::vector<std::string> stops)
    : tokenizer_(tokenizer), stops_(std::move(stops)) {
  if (stops_.size() < 2) return;  // nothing to tell apart
  for (const std::string& stop : stops_) most_ = std::max(most_, stop.size() + 1);
}

void FoundStop::add(int token) {
  if (most_ == 0 || token < 0) return;
  last_.push_back(token);
  if (last_.size() > most_) last_.pop_front();
}

std::string FoundStop::text() const {
  if (stops_.size() == 1) return stops_.front();
  const std::string said = tokenizer_.decode(std::vector<int>(last_.begin(), last_.end()));
  const std::string* found = nullptr;
  size_t found_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = said.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (found != nullptr && (end > found_end || (end == found_end && stop.size() <= found->size()))) continue;
    found = &stop;
    found_end = end;
  }
  return found == nullptr ? std::string() : *found;
}

}  // namespace slip::server::api
