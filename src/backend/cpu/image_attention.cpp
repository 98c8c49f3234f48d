#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/image_attention.cpp"
#include "backend/cpu/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/image_attention.h"
#include "backend/cpu/math-inl.h"

SLIP_BEFORE_NAMESPACE();
namespace slip::backend::cpu::HWY_NAMESPACE {

constexpr float kLog2E = 1.44269504f;

/// 2^x for x <= 0, no lower than 2^-126: a power of two times a polynomial of degree 5 for the fraction, within
/// 3e-7 of the value. Half the work of Highway's e^x, which this tower would spend a tenth of its time in.
HWY_INLINE VF power_of_two(VF x) {
  const DF df;
  const DI di;
  const VF bounded = hn::Max(x, hn::Set(df, -126.0f));
  const VF whole = hn::Round(bounded), f = hn::Sub(bounded, whole);
  VF y = hn::Set(df, 1.3333558e-3f);
  y = hn::MulAdd(y, f, hn::Set(df, 9.6181291e-3f));
  y = hn::MulAdd(y, f, hn::Set(df, 5.5504109e-2f));
  y = hn::MulAdd(y, f, hn::Set(df, 2.4022651e-1f));
  y = hn::MulAdd(y, f, hn::Set(df, 6.9314718e-1f));
  y = hn::MulAdd(y, f, hn::Set(df, 1.0f));
  return hn::BitCast(df, hn::Add(hn::BitCast(di, y), hn::ShiftLeft<23>(hn::ConvertTo(di, whole))));
}

/// Stores weights as the second product reads them.
template <bool kNarrow>
HWY_INLINE void store_weights(VF weights, void* to, int at) {
  if constexpr (kNarrow) {
    // Ties go up instead of to even: one addition instead of four, and no sum can tell.
    const DU du;
    const VU rounded = hn::ShiftRight<16>(hn::Add(hn::BitCast(du, weights), hn::Set(du, 0x8000)));
    const hn::Rebind<uint16_t, DU> d16;
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(DI(), rounded)), d16, static_cast<uint16_t*>(to) + at);
  } else {
    hn::StoreU(weights, DF(), static_cast<float*>(to) + at);
  }
}

/// Scores of `count` keys (a multiple of 16 is readable) -> weights relative to the highest score so far;
/// those past count become 0. Returns the factor for what was summed before this tile.
template <bool kNarrow>
float soften(const float* scores, int count, float* highest, float* total, void* weights) {
  const DF df;
  const int whole = count / kLanes * kLanes, padded = (count + 15) / 16 * 16;
  const VF none = hn::Set(df, -INFINITY), limit = hn::Set(df, static_cast<float>(count));
  // Of the last vectors, lanes that stand for no key.
  const auto is_key = [&](int at) HWY_ATTR { return hn::Lt(hn::Iota(df, static_cast<float>(at)), limit); };

  VF peaks = hn::Set(df, *highest);
  int i = 0;
  for (; i < whole; i += kLanes) peaks = hn::Max(peaks, hn::LoadU(df, scores + i));
  for (; i < padded; i += kLanes) {
    peaks = hn::Max(peaks, hn::IfThenElse(is_key(i), hn::LoadU(df, scores + i), none));
  }
  const float top = hn::GetLane(hn::MaxOfLanes(df, peaks));

  const VF log2e = hn::Set(df, kLog2E), offset = hn::Set(df, top * kLog2E);
  const auto weight = [&](int at) HWY_ATTR {
    return power_of_two(hn::MulSub(hn::LoadU(df, scores + at), log2e, offset));
  };
  VF sums = hn::Zero(df);
  for (i = 0; i < whole; i += kLanes) {
    const VF here = weight(i);
    sums = hn::Add(sums, here);
    store_weights<kNarrow>(here, weights, i);
  }
  for (; i < padded; i += kLanes) {
    const VF here = hn::IfThenElseZero(is_key(i), weight(i));
    sums = hn::Add(sums, here);
    store_weights<kNarrow>(here, weights, i);
  }
  const float keep = *highest == top ? 1.0f : std::exp(*highest - top);
  *highest = top;
  *total = *total * keep + hn::GetLane(hn::SumOfLanes(df, sums));
  return keep;
}

/// Rows [from, from + rows) of the scratch, whose scores lie at its beginning.
void soften_rows_target(const AttendScratch& scratch, int from, int rows, int count, bool first,
                        bool narrow) {
  for (int row = 0; row < rows; ++row) {
    const float* scores = scratch.scores + row * kAttendTile;
    float* highest = scratch.highest + from + row;
    float* total = scratch.total + from + row;
    const float keep = narrow ? soften<true>(scores, count, highest, total,
                                             static_cast<uint16_t*>(scratch.weights) + row * kAttendTile)
                              : soften<false>(scores, count, highest, total,
                                              static_cast<float*>(scratch.weights) + row * kAttendTile);
    if (first || keep == 1.0f) continue;
    const DF df;
    float* sums = scratch.sums + (from + row) * scratch.sums_stride;
    for (int64_t i = 0; i < scratch.sums_stride; i += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(df, sums + i), hn::Set(df, keep)), df, sums + i);
    }
  }
}

}  // namespace slip::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slip::backend::cpu {

HWY_EXPORT(soften_rows_target);

namespace {

// Rows whose scores are in the first-level cache together: 16 x 256 scores and weights are 24 KiB.
constexpr int kGroupRows = 16;

}  // namespace

AttendScratch::AttendScratch(Carver& carver, int most_rows, int head_dim, bool narrow) : rows(most_rows) {
  const auto count = static_cast<size_t>(rows);
  sums_stride = (head_dim + 31) / 32 * 32;
  constexpr size_t kGroup = size_t{kGroupRows} * kAttendTile;
  scores = carver.allocate<float>(kGroup);
  weights = narrow ? static_cast<void*>(carver.allocate<uint16_t>(kGroup))
                   : static_cast<void*>(carver.allocate<float>(kGroup));
  sums = carver.allocate<float>(count * static_cast<size_t>(sums_stride));
  highest = carver.allocate<float>(count);
  total = carver.allocate<float>(count);
}

namespace {

/// Adds one tile of keys to the sums of all rows.
template <typename Element>
void attend_tile(const ImageKv& kv, int head, int first, const Element* queries, int64_t query_stride,
                 int rows, const AttendScratch& scratch) {
  const int count = std::min(kAttendTile, kv.patches() - first);
  const DotPanels keys = kv.keys(head, first, count);
  for (int from = 0; from < rows; from += kGroupRows) {
    const int group = std::min(kGroupRows, rows - from);
    dot_rows(queries + from * query_stride, query_stride, group, keys, scratch.scores, kAttendTile, false);
    HWY_DYNAMIC_DISPATCH(soften_rows_target)(scratch, from, group, count, first == 0, kv.narrow());
    for (int panel = 0; panel < kv.value_panels(); ++panel) {
      dot_rows(static_cast<const Element*>(scratch.weights), kAttendTile, group,
               kv.values(head, panel, first, count), scratch.sums + from * scratch.sums_stride + panel * 32,
               scratch.sums_stride, first > 0);
    }
  }
}

template <typename Element>
void attend_head(const ImageKv& kv, int head, const Element* queries, int64_t query_stride, int rows,
                 const AttendScratch& scratch) {
  std::fill_n(scratch.highest, rows, -INFINITY);
  std::fill_n(scratch.total, rows, 0.0f);
  for (int first = 0; first < kv.patches(); first += kAttendTile) {
    attend_tile(kv, head, first, queries, query_stride, rows, scratch);
  }
}

}  // namespace

void attend_image(const ImageKv& kv, const void* queries, int64_t query_stride, int rows,
                  const AttendScratch& scratch, float* out, int64_t out_stride) {
  const int hd = kv.head_dim();
  for (int head = 0; head < kv.heads(); ++head) {
    if (kv.narrow()) {
      attend_head(kv, head, static_cast<const uint16_t*>(queries) + head * hd, query_stride, rows, scratch);
    } else {
      attend_head(kv, head, static_cast<const float*>(queries) + head * hd, query_stride, rows, scratch);
    }
    for (int row = 0; row < rows; ++row) {
      const float share = 1 / scratch.total[row];
      const float* sums = scratch.sums + row * scratch.sums_stride;
      float* to = out + row * out_stride + head * hd;
      for (int d = 0; d < hd; ++d) to[d] = sums[d] * share;
    }
  }
}

}  // namespace slip::backend::cpu
#endif
