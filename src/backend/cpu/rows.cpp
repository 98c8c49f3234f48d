#include "backend/cpu/rows.h"

#include "backend/cpu/elementwise.h"

namespace slip::backend::cpu {

Rows::Rows(Carver& carver, int64_t rows, int64_t cols, ActivationMode mode)
    : planes_(static_cast<int>(mode)), cols_(cols) {
  stride_ = (cols + 127) / 128 * 128;  // the widest block: a group of 128
  const auto count = static_cast<size_t>(rows * stride_);
  values_ = carver.take<float>(count);
  exact_sums_ = carver.take<float>(count / kSumBlock);
  if (planes_ > 0) {
    codes_ = carver.take<int8_t>(count * static_cast<size_t>(planes_));
    scales_ = carver.take<float>(count / kQuantBlock);
    sums_ = carver.take<float>(count / kSumBlock);
  }
}

void Rows::finish(int64_t index) const {
  const int64_t at = index * stride_;
  if (planes_ > 0) {
    quantise_row(values_ + at, stride_, planes_, codes_ + at * planes_, scales_ + at / kQuantBlock,
                 sums_ + at / kSumBlock);
  }
  sum_blocks(values_ + at, stride_, exact_sums_ + at / kSumBlock);
}

Column Rows::column(int64_t index, float* out, bool exact) const {
  const int64_t at = index * stride_;
  Column column;
  column.values = values_ + at;
  column.sums = exact_sums_ + at / kSumBlock;
  column.out = out;
  if (!exact && planes_ > 0) {
    column.planes = planes_;
    column.codes = codes_ + at * planes_;
    column.scales = scales_ + at / kQuantBlock;
    column.sums = sums_ + at / kSumBlock;
  }
  return column;
}

}  // namespace slip::backend::cpu
