#include "text/merge_table.h"

#include <bit>

#include "base/noise.h"

namespace slip::text {
namespace {

uint64_t key_of(int left, int right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t count) : slots_(std::bit_ceil(count * 2 + 2)) {}

size_t MergeTable::slot_of(uint64_t key) const {
  const size_t mask = slots_.size() - 1;
  size_t at = mix64(key) & mask;
  while (slots_[at].key != key && slots_[at].key != kEmpty) at = (at + 1) & mask;
  return at;
}

void MergeTable::add(int left, int right, Merge merge) {
  const uint64_t key = key_of(left, right);
  slots_[slot_of(key)] = {key, merge};
}

Merge MergeTable::find(int left, int right) const {
  if (slots_.empty()) return {};
  return slots_[slot_of(key_of(left, right))].merge;
}

}  // namespace slip::text
