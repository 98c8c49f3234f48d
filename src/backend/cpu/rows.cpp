#include "backend/cpu/rows.h"

#include <algorithm>

#include "backend/cpu/elementwise.h"

namespace slip::backend::cpu {

Rows::Rows(Carver& carver, int64_t rows, int64_t cols, ActivationMode mode)
    : planes_(static_cast<int>(mode)), cols_(cols) {
  stride_ = (cols + 127) / 128 * 128;  // the widest block: a group of 128
  const auto count = static_cast<size_t>(rows * stride_);
  values_ = carver.allocate<float>(count);
  sums_ = carver.allocate<float>(count / kSumBlock);
  if (planes_ > 0) {
    codes_ = carver.allocate<int8_t>(count * static_cast<size_t>(planes_));
    scales_ = carver.allocate<float>(count / kQuantBlock);
  }
}

void Rows::finish(int64_t index, int64_t first, int64_t end) const {
  if (end >= cols_) {
    end = stride_;  // the padding goes with the last column
  } else if (end % kQuantBlock != 0) {
    // What a wider layer left behind must not set the scale of the last block.
    const int64_t whole = (end / kQuantBlock + 1) * kQuantBlock;
    std::fill(row(index) + end, row(index) + whole, 0.0f);
    end = whole;
  }
  const int64_t at = index * stride_ + first, count = end - first;
  if (planes_ > 0) {
    quantise_row(values_ + at, count, planes_, codes_ + at * planes_, scales_ + at / kQuantBlock,
                 sums_ + at / kSumBlock);
  } else {
    sum_blocks(values_ + at, count, sums_ + at / kSumBlock);
  }
}

Column Rows::column(int64_t index, float* out) const {
  const int64_t at = index * stride_;
  Column column;
  column.values = values_ + at;
  column.sums = sums_ + at / kSumBlock;
  column.out = out;
  if (planes_ > 0) {
    column.planes = planes_;
    column.codes = codes_ + at * planes_;
    column.scales = scales_ + at / kQuantBlock;
  }
  return column;
}

}  // namespace slip::backend::cpu
