// Bpe: byte-pair encoding of one stretch of normalised text. The text starts as one symbol per character;
// then the neighbours whose merge has the lowest rank join, the leftmost first among equals, until no
// neighbours merge. A heap of candidate pairs over a linked list of symbols makes that O(n log n) for a text
// of n characters, whatever is in it: Gemma runs it over whole texts, not over words, so a quadratic method
// would hang on long ones.
//
// A character that is no token becomes its byte-fallback tokens, or the unknown token when a byte has none. A
// byte that is no valid UTF-8 is treated like such a character. Of the special tokens only the unknown one
// can come out of here.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace slip::text {

struct BpeOptions {
  bool byte_fallback = true;
  bool fuse_unk = true;  // a run of unknown characters becomes one unknown token
  int unk = Vocabulary::kNone;
};

class Bpe {
 public:
  Bpe() = default;
  Bpe(Vocabulary vocabulary, MergeTable merges, BpeOptions options);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// True when every text gets a token for each of its characters: all bytes or the unknown token are there.
  bool covers_all_text() const;

  struct Symbol {
    int32_t id;
    int32_t previous, next;  // neighbours in the list, -1 at its ends
    Merge merge;  // with the next symbol; rank kNever at the end, and for symbols that were joined away
  };
  /// Memory kept from one stretch of text to the next.
  struct Scratch {
    std::vector<Symbol> symbols;
    std::vector<uint64_t> heap;
  };
  /// Appends the tokens of `text` to `out`. The text must be shorter than 2 GiB.
  void encode(std::string_view text, Scratch& scratch, std::vector<int>& out) const;

 private:
  void split(std::string_view text, std::vector<Symbol>& symbols) const;
  void add_unknown(std::string_view bytes, std::vector<Symbol>& symbols) const;
  int symbol_of(std::string_view character) const;
  Merge merge_at(const std::vector<Symbol>& symbols, int at) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::array<int, 128> ascii_{};
  std::array<int, 256> bytes_{};
};

}  // namespace slip::text
