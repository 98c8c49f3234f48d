// TokenMask: which tokens of the vocabulary may be picked, one bit each. A grammar makes them (a state of an
// automaton has one), the sampler reads them; what is forbidden can never be sampled, whatever else was asked
// for.
//
// Invariant: bits beyond the vocabulary are 0. 32 KiB for 262,144 tokens; forbidden() reads all of it, 1 us.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace slip::sample {

class TokenMask {
 public:
  static constexpr int kWordBits = 64;

  /// All tokens forbidden.
  explicit TokenMask(int vocab)
      : vocab_(vocab), words_((static_cast<size_t>(vocab) + kWordBits - 1) / kWordBits) {
    SLIP_CHECK(vocab >= 1);
  }

  int vocab() const { return vocab_; }
  bool allows(int id) const { return (word_of(id) >> (id % kWordBits) & 1) != 0; }
  void allow(int id) { words_[index_of(id)] |= uint64_t{1} << (id % kWordBits); }
  void forbid(int id) { words_[index_of(id)] &= ~(uint64_t{1} << (id % kWordBits)); }

  void allow_all() {
    for (uint64_t& word : words_) word = ~uint64_t{0};
    if (const int rest = vocab_ % kWordBits; rest != 0) words_.back() = ~uint64_t{0} >> (kWordBits - rest);
  }
  void forbid_all() {
    for (uint64_t& word : words_) word = 0;
  }

  /// How many tokens may not be picked.
  int64_t forbidden() const {
    int64_t allowed = 0;
    for (const uint64_t word : words_) allowed += std::popcount(word);
    return vocab_ - allowed;
  }

  /// Token 64 * i + bit is bit `bit` of word i.
  std::span<const uint64_t> words() const { return words_; }

 private:
  static size_t index_of(int id) { return static_cast<size_t>(id) / kWordBits; }
  uint64_t word_of(int id) const { return words_[index_of(id)]; }

  int vocab_;
  std::vector<uint64_t> words_;
};

}  // namespace slip::sample
