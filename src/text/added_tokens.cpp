#include "text/added_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace slip::text {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_word(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte >= 0x80 || c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
         (c >= 'a' && c <= 'z');
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !is_word(text[begin - 1])) && (end == text.size() || !is_word(text[end]));
}

bool is_wanted(const SpecialsWanted& specials, size_t begin, size_t end) {
  if (!specials.anywhere || !specials.only_in) return specials.anywhere;
  const auto& ranges = *specials.only_in;
  const auto range = std::partition_point(ranges.begin(), ranges.end(),
                                          [&](const TextRange& candidate) { return candidate.end <= begin; });
  return range != ranges.end() && range->begin <= begin && end <= range->end;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher() {
  first_.fill(-1);
}

int AddedTokenMatcher::child(int node, uint8_t byte) const {
  int at = nodes_[static_cast<size_t>(node)].child;
  while (at >= 0 && nodes_[static_cast<size_t>(at)].byte != byte)
    at = nodes_[static_cast<size_t>(at)].sibling;
  return at;
}

void AddedTokenMatcher::add(const AddedToken& token) {
  SLIP_CHECK(!token.content.empty());
  const auto make = [&](uint8_t byte) {
    nodes_.push_back({byte});
    return static_cast<int32_t>(nodes_.size() - 1);
  };
  const auto lead = static_cast<uint8_t>(token.content[0]);
  if (first_[lead] < 0) first_[lead] = make(lead);
  int node = first_[lead];
  for (size_t i = 1; i < token.content.size(); ++i) {
    const auto byte = static_cast<uint8_t>(token.content[i]);
    int next = child(node, byte);
    if (next < 0) {
      next = make(byte);
      nodes_.back().sibling = nodes_[static_cast<size_t>(node)].child;
      nodes_[static_cast<size_t>(node)].child = next;
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  has_specials_ = has_specials_ || token.special;
}

const AddedToken* AddedTokenMatcher::longest(std::string_view text, size_t at,
                                             const SpecialsWanted& specials) const {
  const size_t begin = at;
  const AddedToken* best = nullptr;
  int node = first_[static_cast<uint8_t>(text[at])];
  while (node >= 0) {
    const int token = nodes_[static_cast<size_t>(node)].token;
    if (token >= 0) {
      const AddedToken& ended = tokens_[static_cast<size_t>(token)];
      if (!ended.special || is_wanted(specials, begin, at + 1)) best = &ended;
    }
    if (++at == text.size()) break;
    node = child(node, static_cast<uint8_t>(text[at]));
  }
  return best;
}

std::optional<AddedTokenMatcher::Match> AddedTokenMatcher::find(std::string_view text, size_t from,
                                                                const SpecialsWanted& specials) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (first_[static_cast<uint8_t>(text[at])] < 0) continue;
    const AddedToken* token = longest(text, at, specials);
    if (token == nullptr) continue;
    size_t begin = at;
    size_t end = at + token->content.size();
    if (token->single_word && !stands_alone(text, begin, end)) {
      at = end - 1;  // Hugging Face looks on behind the refused match, not inside it
      continue;
    }
    while (token->lstrip && begin > from && is_space(text[begin - 1])) --begin;
    while (token->rstrip && end < text.size() && is_space(text[end])) ++end;
    return Match{begin, end, token->id};
  }
  return std::nullopt;
}

}  // namespace slip::text
