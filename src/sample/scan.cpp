#include "sample/scan.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace slip::sample {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Largest of a whole block; `fine` keeps a lane at -1 while all its values are below +infinity (NaN is not).
float block_maximum(const float* values, Ints& fine) {
  Floats largest = load(values);
  fine &= largest < kInfinity;
  for (int i = kLanes; i < Scan::kBlock; i += kLanes) {
    const Floats next = load(values + i);
    largest = larger(largest, next);
    fine &= next < kInfinity;
  }
  return std::max(std::max(largest[0], largest[1]), std::max(largest[2], largest[3]));
}

}  // namespace

Scan::Scan(int vocab)
    : vocab_(vocab),
      block_max_(static_cast<size_t>((vocab + kBlock - 1) / kBlock)),
      sorted_max_(block_max_.size()) {
  SLIP_CHECK(vocab >= 1);
}

bool Scan::read(std::span<const float> row, const int* ids) {
  SLIP_CHECK(row.size() <= static_cast<size_t>(vocab_));
  row_ = row.data();
  ids_ = ids;
  count_ = static_cast<int>(row.size());
  blocks_ = (count_ + kBlock - 1) / kBlock;
  Ints fine = {-1, -1, -1, -1};
  for (int block = 0; block < blocks(); ++block) {
    block_max_[static_cast<size_t>(block)] =
        with_block(block, [&](const float* values) { return block_maximum(values, fine); });
  }
  max_ = -kInfinity;
  for (int block = 0; block < blocks(); ++block) max_ = std::max(max_, block_max(block));
  return fine[0] != 0 && fine[1] != 0 && fine[2] != 0 && fine[3] != 0;
}

int Scan::argmax() const {
  const auto block =
      static_cast<int>(std::find(block_max_.begin(), block_max_.end(), max_) - block_max_.begin());
  return id(static_cast<int>(std::find(row_ + block * kBlock, row_ + block_end(block), max_) - row_));
}

std::span<Candidate> Scan::best(int count, std::span<Candidate> space) {
  SLIP_CHECK(count >= 1 && space.size() >= static_cast<size_t>(vocab_));
  // The count-th largest block maximum: at least `count` values are no smaller, usually not many more.
  float floor = -kInfinity;
  if (count <= blocks()) {
    std::copy_n(block_max_.begin(), blocks(), sorted_max_.begin());
    const auto nth = sorted_max_.begin() + (count - 1);
    std::nth_element(sorted_max_.begin(), nth, sorted_max_.begin() + blocks(), std::greater<>());
    floor = *nth;
  }
  size_t found = 0;
  visit_from(floor, [&](float value, int id) { space[found++] = {value, id}; });
  const auto kept = std::min(found, static_cast<size_t>(count));
  if (kept < found) {
    std::nth_element(space.begin(), space.begin() + count, space.begin() + static_cast<int64_t>(found),
                     better);
  }
  return space.first(kept);
}

double Scan::weight_sum(float scale, const Quantum& quantum) const {
  Doubles low = {}, high = {};
  for (int block = 0; block < blocks(); ++block) {
    if ((block_max(block) - max_) * scale < quantum.negligible()) continue;
    with_block(block, [&](const float* values) {
      for (int i = 0; i < kBlock; i += kLanes) {
        const Floats weights = exp_nonpositive((load(values + i) - max_) * scale);
        low += quantum.round(low_half(weights));
        high += quantum.round(high_half(weights));
      }
    });
  }
  return (low[0] + low[1]) + (high[0] + high[1]);
}

}  // namespace slip::sample
