// Scan: a row of logits together with the maximum of every block of 64. One pass makes it; after that a
// search for large values (the top k, everything near the maximum, tokens that could win a draw) visits only
// the few blocks that can hold one. It refers to the row and does not copy it. Nothing allocates after
// construction. A list of tokens is a short row whose places have ids of their own.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/scores.h"
#include "sample/weight.h"

namespace slip::sample {

class Scan {
 public:
  static constexpr int kBlock = 64;

  explicit Scan(int vocab);

  /// Takes a row of up to `vocab` values: of the tokens 0, 1, 2, ..., or of those in `ids`, which ascend.
  /// False if one is NaN or +infinity; -infinity marks a token that cannot be.
  [[nodiscard]] bool read(std::span<const float> row, const int* ids = nullptr);

  /// The largest value (-infinity if there is no possible token) and the lowest id that has it.
  float max() const { return max_; }
  int argmax() const;

  /// Calls visit(value, id) for every possible token whose value is at least `floor`, in ascending order of
  /// id.
  template <typename Visit>
  void visit_from(float floor, Visit&& visit) const {
    floor = floor > std::numeric_limits<float>::lowest() ? floor : std::numeric_limits<float>::lowest();
    for (int block = 0; block < blocks(); ++block) {
      if (block_max_[static_cast<size_t>(block)] < floor) continue;
      for (int place = block * kBlock, end = block_end(block); place < end; ++place) {
        if (row_[place] >= floor) visit(row_[place], id(place));
      }
    }
  }

  /// The best `count` (or all possible ones, if fewer) in no particular order; the result lies in `space`
  /// [vocab].
  std::span<Candidate> best(int count, std::span<Candidate> space);

  /// Sum over all tokens of e^((value - max) * scale), rounded as `quantum` does.
  double weight_sum(float scale, const Quantum& quantum) const;

  /// Places of the row, block by block.
  int blocks() const { return blocks_; }
  int block_end(int block) const { return block + 1 < blocks_ ? (block + 1) * kBlock : count_; }
  float block_max(int block) const { return block_max_[static_cast<size_t>(block)]; }
  float value(int place) const { return row_[place]; }
  int id(int place) const { return ids_ == nullptr ? place : ids_[place]; }

 private:
  /// Calls work with kBlock values: of the row, or of a copy filled up with impossible tokens where the row
  /// ends.
  template <typename Work>
  auto with_block(int block, Work&& work) const {
    const float* values = row_ + block * kBlock;
    const int count = block_end(block) - block * kBlock;
    if (count == kBlock) return work(values);
    float filled[kBlock];
    for (int i = 0; i < kBlock; ++i)
      filled[i] = i < count ? values[i] : -std::numeric_limits<float>::infinity();
    return work(static_cast<const float*>(filled));
  }

  const int vocab_;
  int count_ = 0, blocks_ = 0;
  const float* row_ = nullptr;  // [count]
  const int* ids_ = nullptr;    // [count]; null = every place is its own id
  float max_ = 0;
  std::vector<float> block_max_;
  std::vector<float> sorted_max_;  // scratch of best()
};

}  // namespace slip::sample
