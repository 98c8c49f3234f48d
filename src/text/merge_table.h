// MergeTable: which neighbours BPE joins, how early, and into what. Open addressing on the two ids in one
// 64-bit key, 16 bytes a slot, at most half full: Gemma's half a million merges take 16 MiB, and a lookup
// that finds nothing (most of them) touches one cache line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slip::text {

struct Merge {
  static constexpr uint32_t kNever = UINT32_MAX;
  uint32_t rank = kNever;  // lower joins earlier
  int32_t id = -1;         // the joined token
};

class MergeTable {
 public:
  MergeTable() = default;
  /// Room for `count` merges.
  explicit MergeTable(size_t count);

  /// A pair that is added twice keeps the later merge, as Hugging Face does.
  void add(int left, int right, Merge merge);
  /// A merge of rank kNever when the two never join.
  Merge find(int left, int right) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = UINT64_MAX;
  size_t slot_of(uint64_t key) const;

  std::vector<Slot> slots_;
};

}  // namespace slip::text
