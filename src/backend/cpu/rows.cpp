#include "backend/cpu/rows.h"

#include "backend/cpu/elementwise.h"

namespace slip::backend::cpu {

Rows::Rows(Carver& carver, int64_t rows, int64_t cols, ActivationMode mode)
    : planes_(static_cast<int>(mode)), cols_(cols) {
  stride_ = (cols + 127) / 128 * 128;  // the widest block: a group of 128
  const auto count = static_cast<size_t>(rows * stride_);
  const auto blocks = count / kQuantBlock;
  values_ = carver.take<float>(count);
  exact_sums_ = carver.take<float>(blocks);
  if (planes_ > 0) {
    codes_ = carver.take<int8_t>(count * static_cast<size_t>(planes_));
    scales_ = carver.take<float>(blocks);
    sums_ = carver.take<float>(blocks);
  }
}

void Rows::finish(int64_t index) const {
  const int64_t at = index * stride_, block = at / kQuantBlock;
  if (planes_ > 0) {
    quantise_row(values_ + at, stride_, planes_, codes_ + at * planes_, scales_ + block, sums_ + block);
  }
  sum_blocks(values_ + at, stride_, exact_sums_ + block);
}

Column Rows::column(int64_t index, float* out, bool exact) const {
  const int64_t at = index * stride_, block = at / kQuantBlock;
  if (exact || planes_ == 0) {
    return {.values = values_ + at,
            .planes = 0,
            .codes = nullptr,
            .scales = nullptr,
            .sums = exact_sums_ + block,
            .out = out};
  }
  return {.values = values_ + at,
          .planes = planes_,
          .codes = codes_ + at * planes_,
          .scales = scales_ + block,
          .sums = sums_ + block,
          .out = out};
}

}  // namespace slip::backend::cpu
