// Scores: what a network says about the next token, as backends make it and the sampler reads it: either the
// logits of the whole vocabulary, or the best few tokens with theirs. A list suffices for most requests
// (sample/candidates.h) and is a thousandth of the bytes where logits have to come from another memory.
//
// Order of candidates: higher value first, lower id among equals. It is total, so a list has one content.
#pragma once

#include <span>

namespace slip {

struct Candidate {
  float value = 0;
  int id = 0;
};

inline bool better(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/// The longest list a backend makes.
inline constexpr int kMostCandidates = 128;

/// Plain data: devices write it.
struct BestTokens {
  int wanted = 0;      // as asked for; 0 = there is no list, the row has its logits
  int count = 0;       // fewer than wanted where fewer tokens are above -infinity
  int all_finite = 1;  // 0 = a logit of the row is NaN or +infinity; the list means nothing then
  int next = 0;        // of a step of a chain (backend/drafting.h): the token that the step after it took up
  Candidate tokens[kMostCandidates];  // the best first
};

/// One row. Refers to what a backend gave out.
struct Scores {
  std::span<const float> logits = {};  // [vocab]; not read if there is a list
  const BestTokens* best = nullptr;    // null = no list
};

}  // namespace slip
