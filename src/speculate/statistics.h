// Statistics of speculation for one sequence. Kept by value and updated in place: nothing allocates.
//
// What lies after the end of the text inside a round is not counted: nobody knows whether it was right.
#pragma once

#include <algorithm>
#include <array>

#include "speculate/decision.h"
#include "speculate/drafter.h"

namespace slip::speculate {

struct Statistics {
  struct ByDrafter {
    const char* name = nullptr;  // null = free
    int rounds = 0;              // it guessed in
    int drafted = 0, accepted = 0;
  };

  int rounds = 0;     // passes that decoded this sequence, with guesses or without
  int committed = 0;  // tokens out of them
  int drafted = 0, accepted = 0;
  std::array<int, kMostDepth + 1> drafted_at{}, accepted_at{};  // by position in the draft
  std::array<ByDrafter, kMostDrafters> by;

  // Seconds of the rounds, shared with the other sequences of the batch.
  double draft_s = 0, verify_s = 0;
  // Of rounds in which nobody read a prompt: what they took, and what plain decoding would have taken for the
  // same tokens, by the plain passes measured in this process.
  double compared_s = 0, plain_s = 0;
  Decision decision;  // of the last round that says something

  double tokens_per_pass() const { return rounds == 0 ? 0 : static_cast<double>(committed) / rounds; }
  double acceptance() const { return drafted == 0 ? 0 : static_cast<double>(accepted) / drafted; }
  /// Speed against plain decoding; 0 while unknown.
  double speedup() const { return compared_s > 0 ? plain_s / compared_s : 0; }

  void count(int position, const char* drafter, bool right) {
    const auto at = static_cast<size_t>(std::min(position, kMostDepth));
    ++drafted;
    ++drafted_at[at];
    ByDrafter& own = of(drafter);
    ++own.drafted;
    if (!right) return;
    ++accepted;
    ++accepted_at[at];
    ++own.accepted;
  }
  /// Takes another sequence's in; the decision is that of the newer one.
  void add(const Statistics& other) {
    rounds += other.rounds;
    committed += other.committed;
    drafted += other.drafted;
    accepted += other.accepted;
    for (size_t i = 0; i < drafted_at.size(); ++i) {
      drafted_at[i] += other.drafted_at[i];
      accepted_at[i] += other.accepted_at[i];
    }
    for (const ByDrafter& theirs : other.by) {
      if (theirs.name == nullptr) continue;
      ByDrafter& own = of(theirs.name);
      own.rounds += theirs.rounds;
      own.drafted += theirs.drafted;
      own.accepted += theirs.accepted;
    }
    draft_s += other.draft_s;
    verify_s += other.verify_s;
    compared_s += other.compared_s;
    plain_s += other.plain_s;
    decision = other.decision;
  }
  ByDrafter& of(const char* drafter) {
    for (ByDrafter& own : by) {
      if (own.name == nullptr) own.name = drafter;
      if (own.name == drafter) return own;
    }
    return by.back();
  }
};

}  // namespace slip::speculate
