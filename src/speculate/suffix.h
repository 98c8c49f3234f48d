// SuffixDrafter: no model. It finds the longest earlier place where the text went as it goes now, and guesses
// that it goes on the same way. Good at copying, edits of code, JSON.
//
// Hash chains, as in a compressor: for every place its last 2 and its last 6 tokens lead to the place before
// with the same ones. A lookup walks the chain of 6, and where that finds nothing the chain of 2, at most
// kMostVisits places, newest first; the longest match wins, the newest among equals. A copy may run into its
// own output, so a text that repeats itself is continued as far as asked for.
//
// Cost: at most 24 bytes per token of the longest text; one insertion per committed token; a lookup compares
// at most kMostVisits * kLongestMatch tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "speculate/drafter.h"

namespace slip::speculate {

/// Places in one text by the last `length` tokens before them.
class PlaceChain {
 public:
  PlaceChain(int length, int most_tokens);
  /// Adds the place whose last token is tokens[end].
  void add(std::span<const int> tokens, int end);
  /// The newest place with the same last tokens as `tail` (which has `length` of them), -1 if there is none.
  /// A place may also come up through a collision: compare.
  int newest(std::span<const int> tail) const;
  int before(int place) const { return before_[static_cast<size_t>(place)]; }
  int length() const { return length_; }
  /// Memory of one chain of a text that may get so long.
  static size_t bytes_at(int most_tokens);

 private:
  size_t bucket(std::span<const int> tail) const;

  int length_;
  std::vector<int> newest_;  // [a power of two] by hash
  std::vector<int> before_;  // [most_tokens]
};

class SuffixDrafter final : public Drafter {
 public:
  static constexpr int kLeastMatch = 2;
  static constexpr int kLongMatch = 6;      // looked for first
  static constexpr int kLongestMatch = 64;  // longer ones are as good
  static constexpr int kMostVisits = 64;

  /// `placeholders` stand for pictures and sounds and are no text: they match nothing, and nothing copies them.
  explicit SuffixDrafter(std::vector<int> placeholders = {}) : placeholders_(std::move(placeholders)) {}

  const char* name() const override { return "suffix"; }
  Effort effort() const override { return Effort::kLookup; }
  int most_drafts() const override { return kMostDepth; }

  void begin(const SequenceView& view) override;
  void propose(std::span<Proposal> proposals) override;
  void committed(const SequenceView& view, const Pass& pass) override;
  void settled(uint64_t id) override { texts_.erase(id); }

 private:
  struct Text {
    PlaceChain few, many;
    int added = 0;  // places [0, added) are in the chains
  };
  struct Match {
    int place = -1;  // its last token
    int length = 0;
  };

  bool is_text(int token) const {
    return std::find(placeholders_.begin(), placeholders_.end(), token) == placeholders_.end();
  }
  void catch_up(Text& text, std::span<const int> tokens) const;
  Match longest(const PlaceChain& chain, std::span<const int> tokens, std::span<const int> tail) const;
  void propose(Proposal& proposal) const;

  const std::vector<int> placeholders_;
  std::unordered_map<uint64_t, Text> texts_;
};

}  // namespace slip::speculate
