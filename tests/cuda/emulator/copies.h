// Copies that are under way: they are made when somebody waits for them, not before, so that whoever reads
// too early reads what was there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace slip::emulator {

inline bool is_aligned(const void* at) {
  return reinterpret_cast<uintptr_t>(at) % 16 == 0;
}

/// Those of one thread, 16 bytes each, in groups.
class AsyncCopies {
 public:
  void add(void* to, const void* from) { groups_.back().push_back({to, from}); }
  void commit() { groups_.emplace_back(); }
  /// Until `left` groups are under way, beside the one that is open.
  void wait(int left) {
    while (static_cast<int>(groups_.size()) - 1 > left) {
      for (const Copy& copy : groups_.front()) std::memcpy(copy.to, copy.from, 16);
      groups_.erase(groups_.begin());
    }
  }

  bool empty() const {
    return std::ranges::all_of(groups_, [](const auto& group) { return group.empty(); });
  }

 private:
  struct Copy {
    void* to;
    const void* from;
  };
  std::vector<std::vector<Copy>> groups_ = std::vector<std::vector<Copy>>(1);  // the last one still open
};

struct BulkCopy {
  std::byte* to;
  const std::byte* from;
  size_t bytes;
  size_t rows, stride;  // of the bytes, and between the places they go to
};

/// Those of one block, by where they are awaited.
class BulkCopies {
 public:
  /// False where another one is under way.
  bool start(uint64_t* arrival, const BulkCopy& copy) { return under_way_.emplace(arrival, copy).second; }
  /// False where there is none.
  bool finish(uint64_t* arrival) {
    const auto at = under_way_.find(arrival);
    if (at == under_way_.end()) return false;
    const BulkCopy& copy = at->second;
    for (size_t row = 0; row < copy.rows; ++row)
      std::memcpy(copy.to + row * copy.stride, copy.from + row * copy.bytes, copy.bytes);
    under_way_.erase(at);
    return true;
  }
  bool empty() const { return under_way_.empty(); }

 private:
  std::map<uint64_t*, BulkCopy> under_way_;
};

}  // namespace slip::emulator
