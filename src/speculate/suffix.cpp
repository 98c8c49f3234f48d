#include "speculate/suffix.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/noise.h"

namespace slip::speculate {

PlaceChain::PlaceChain(int length, int most_tokens)
    : length_(length),
      newest_(std::bit_ceil(static_cast<size_t>(std::max(most_tokens, 1))), -1),
      before_(static_cast<size_t>(most_tokens), -1) {}

size_t PlaceChain::bytes_at(int most_tokens) {
  const auto tokens = static_cast<size_t>(std::max(most_tokens, 1));
  return (std::bit_ceil(tokens) + tokens) * sizeof(int);
}

size_t PlaceChain::bucket(std::span<const int> tail) const {
  uint64_t hash = 0;
  for (const int token : tail) hash = mix64(hash ^ (static_cast<uint64_t>(token) + 0x9e3779b97f4a7c15ull));
  return static_cast<size_t>(hash) & (newest_.size() - 1);
}

void PlaceChain::add(std::span<const int> tokens, int end) {
  if (end + 1 < length_) return;
  int& head =
      newest_[bucket(tokens.subspan(static_cast<size_t>(end + 1 - length_), static_cast<size_t>(length_)))];
  before_[static_cast<size_t>(end)] = head;
  head = end;
}

int PlaceChain::newest(std::span<const int> tail) const {
  return newest_[bucket(tail)];
}

void SuffixDrafter::begin(const SequenceView& view) {
  const auto place = texts_.emplace(
      view.id, Text{.few = {kLeastMatch, view.most_tokens}, .many = {kLongMatch, view.most_tokens}});
  catch_up(place.first->second, view.tokens);
}

// Only places with a successor are added: there must be something to copy.
void SuffixDrafter::catch_up(Text& text, std::span<const int> tokens) const {
  for (const int end = static_cast<int>(tokens.size()) - 1; text.added < end; ++text.added) {
    const auto at = static_cast<size_t>(text.added);
    if (!is_text(tokens[at]) || !is_text(tokens[at + 1])) continue;
    text.few.add(tokens, text.added);
    text.many.add(tokens, text.added);
  }
}

void SuffixDrafter::committed(const SequenceView& view, const Pass&) {
  const auto text = texts_.find(view.id);
  if (text != texts_.end()) catch_up(text->second, view.tokens);
}

// The longest earlier place of `tokens` that ends as `tail` does.
SuffixDrafter::Match SuffixDrafter::longest(const PlaceChain& chain, std::span<const int> tokens,
                                            std::span<const int> tail) const {
  Match best;
  if (tail.size() <= static_cast<size_t>(chain.length())) return best;
  int place = chain.newest(tail.last(static_cast<size_t>(chain.length())));
  for (int visits = 0; place >= 0 && visits < kMostVisits && best.length < kLongestMatch; ++visits) {
    const int most = std::min(place + 1, static_cast<int>(tail.size()));
    const int* here = tail.data() + tail.size() - 1;
    const int* there = tokens.data() + place;
    int length = 0;
    while (length < most && here[-length] == there[-length] && is_text(here[-length])) ++length;
    if (length >= chain.length() && length > best.length) best = {place, length};
    place = chain.before(place);
  }
  return best;
}

void SuffixDrafter::propose(std::span<Proposal> proposals) {
  for (Proposal& proposal : proposals) propose(proposal);
}

void SuffixDrafter::propose(Proposal& proposal) const {
  proposal.match = 0;
  const auto text = texts_.find(proposal.view->id);
  if (text == texts_.end() || proposal.depth <= 0) return;
  const std::span<const int> tokens = proposal.view->tokens;
  std::vector<int>& drafts = proposal.drafts;
  // The text ends with the guesses given, and goes on with those copied.
  const auto token = [&](size_t at) { return at < tokens.size() ? tokens[at] : drafts[at - tokens.size()]; };
  const size_t end = tokens.size() + drafts.size();
  std::array<int, kLongestMatch> last;
  const size_t count = std::min(end, last.size());
  for (size_t i = 0; i < count; ++i) last[i] = token(end - count + i);
  const std::span<const int> tail(last.data(), count);
  Match match = longest(text->second.many, tokens, tail);
  if (match.length == 0) match = longest(text->second.few, tokens, tail);
  if (match.length < kLeastMatch) return;
  proposal.match = match.length;
  for (int i = 1; i <= proposal.depth; ++i) {
    const int copied = token(static_cast<size_t>(match.place + i));
    if (!is_text(copied)) break;
    drafts.push_back(copied);
  }
}

}  // namespace slip::speculate
