#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention.cpp"
#include "backend/cpu/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "backend/cpu/attention.h"
#include "backend/cpu/elementwise.h"
#include "backend/cpu/math-inl.h"

SLIP_BEFORE_NAMESPACE();
namespace slip::backend::cpu::HWY_NAMESPACE {

/// Keys or values [first, last) of a page to floats, tile[key - first][head dim].
void widen_tile(const std::byte* base, kv::Storage storage, int head_dim, int first, int last, float* tile) {
  const size_t count = static_cast<size_t>(last - first) * static_cast<size_t>(head_dim);
  const size_t start = static_cast<size_t>(first) * static_cast<size_t>(head_dim);
  const DF df;
  size_t i = 0;
  if (storage == kv::Storage::kBf16) {
    const auto* from = reinterpret_cast<const uint16_t*>(base) + start;
    for (; i + kLanes <= count; i += kLanes) hn::StoreU(widen_bf16(from + i), df, tile + i);
    for (; i < count; ++i) {
      const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
      std::memcpy(tile + i, &bits, sizeof(bits));
    }
  } else {
    std::memcpy(tile, reinterpret_cast<const float*>(base) + start, count * sizeof(float));
  }
}

/// n -> rotate(n * weight) for the keys of a tile.
void rebuild_keys(const PageRope& rope, int head_dim, int first, int last, float* tile) {
  for (int key = first; key < last; ++key) {
    float* row = tile + static_cast<size_t>(key - first) * static_cast<size_t>(head_dim);
    const DF df;
    int i = 0;
    for (; i + kLanes <= head_dim; i += kLanes)
      hn::StoreU(hn::Mul(hn::LoadU(df, row + i), hn::LoadU(df, rope.weight + i)), df, row + i);
    for (; i < head_dim; ++i) row[i] *= rope.weight[i];
    const size_t at = static_cast<size_t>(key) * static_cast<size_t>(rope.pairs);
    rotate_row(row, head_dim / 2, rope.pairs, rope.cosines + at, rope.sines + at);
  }
}

/// Sums of the lanes of four vectors at once, in lanes 0 to 3 of out[4]: a third of the shuffles that four
/// separate sums take. The order of additions is the same for each of the four.
HWY_INLINE void sum_lanes4(VF a, VF b, VF c, VF d, float* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  out[0] = hn::GetLane(a);
  out[1] = hn::GetLane(b);
  out[2] = hn::GetLane(c);
  out[3] = hn::GetLane(d);
#else
  const DF df;
  const hn::Repartition<double, DF> d64;
  const VF ab = hn::Add(hn::InterleaveLower(df, a, b), hn::InterleaveUpper(df, a, b));
  const VF cd = hn::Add(hn::InterleaveLower(df, c, d), hn::InterleaveUpper(df, c, d));
  const auto ab64 = hn::BitCast(d64, ab), cd64 = hn::BitCast(d64, cd);
  const VF four = hn::Add(hn::BitCast(df, hn::InterleaveLower(d64, ab64, cd64)),
                          hn::BitCast(df, hn::InterleaveUpper(d64, ab64, cd64)));
  alignas(64) float blocks[kLanes];
  hn::Store(four, df, blocks);
  const hn::FixedTag<float, 4> d4;
  auto sum = hn::Load(d4, blocks);
  for (int i = 4; i < kLanes; i += 4) sum = hn::Add(sum, hn::Load(d4, blocks + i));
  hn::StoreU(sum, d4, out);
#endif
}

/// scores[q][k] = queries[q] . keys[k] for Q queries and K keys (1 or 4): one accumulator each, over the head
/// in order.
template <int Q, int K>
HWY_INLINE void dot_tile(const float* const* HWY_RESTRICT queries, const float* HWY_RESTRICT keys,
                         int head_dim, float* const* HWY_RESTRICT scores) {
  const DF df;
  VF sums[Q][K];
  for (int q = 0; q < Q; ++q) {
    for (int k = 0; k < K; ++k) sums[q][k] = hn::Zero(df);
  }
  int i = 0;
  for (; i + kLanes <= head_dim; i += kLanes) {
    VF key[K];
    for (int k = 0; k < K; ++k) key[k] = hn::LoadU(df, keys + k * head_dim + i);
    for (int q = 0; q < Q; ++q) {
      const VF query = hn::LoadU(df, queries[q] + i);
      for (int k = 0; k < K; ++k) sums[q][k] = hn::MulAdd(query, key[k], sums[q][k]);
    }
  }
  for (int q = 0; q < Q; ++q) {
    float totals[4];
    sum_lanes4(sums[q][0], sums[q][K > 1 ? 1 : 0], sums[q][K > 1 ? 2 : 0], sums[q][K > 1 ? 3 : 0], totals);
    for (int k = 0; k < K; ++k) {
      for (int j = i; j < head_dim; ++j) totals[k] += queries[q][j] * keys[k * head_dim + j];
      scores[q][k] = totals[k];
    }
  }
}

template <int Q>
void dot_keys(const float* const* queries, const float* keys, int head_dim, int count, float* const* scores) {
  float* at[Q];
  int k = 0;
  const auto here = [&] {
    for (int q = 0; q < Q; ++q) at[q] = scores[q] + k;
    return at;
  };
  for (; k + 4 <= count; k += 4) dot_tile<Q, 4>(queries, keys + k * head_dim, head_dim, here());
  for (; k < count; ++k) dot_tile<Q, 1>(queries, keys + k * head_dim, head_dim, here());
}

/// accumulators[q] += sum over keys of weights[q][key] * values[key], keys in order, D vectors of the head at
/// a time.
template <int Q, int D>
HWY_INLINE void add_values(const float* const* HWY_RESTRICT weights, const float* HWY_RESTRICT values,
                           int head_dim, int count, int at, float* const* HWY_RESTRICT accumulators) {
  const DF df;
  VF sums[Q][D];
  for (int q = 0; q < Q; ++q) {
    for (int d = 0; d < D; ++d) sums[q][d] = hn::LoadU(df, accumulators[q] + at + d * kLanes);
  }
  for (int k = 0; k < count; ++k) {
    const float* row = values + k * head_dim + at;
    VF value[D];
    for (int d = 0; d < D; ++d) value[d] = hn::LoadU(df, row + d * kLanes);
    for (int q = 0; q < Q; ++q) {
      const VF weight = hn::Set(df, weights[q][k]);
      for (int d = 0; d < D; ++d) sums[q][d] = hn::MulAdd(weight, value[d], sums[q][d]);
    }
  }
  for (int q = 0; q < Q; ++q) {
    for (int d = 0; d < D; ++d) hn::StoreU(sums[q][d], df, accumulators[q] + at + d * kLanes);
  }
}

template <int Q>
void add_all_values(const float* const* weights, const float* values, int head_dim, int count,
                    float* const* accumulators) {
  int at = 0;
  for (; at + 4 * kLanes <= head_dim; at += 4 * kLanes)
    add_values<Q, 4>(weights, values, head_dim, count, at, accumulators);
  for (; at + kLanes <= head_dim; at += kLanes)
    add_values<Q, 1>(weights, values, head_dim, count, at, accumulators);
  for (; at < head_dim; ++at) {
    for (int q = 0; q < Q; ++q) {
      for (int k = 0; k < count; ++k)
        accumulators[q][at] = std::fma(weights[q][k], values[k * head_dim + at], accumulators[q][at]);
    }
  }
}

/// scores -> exponentials of the difference to the largest; lanes summed by key position.
void exponentials(float* scores, int count, float* partial) {
  const DF df;
  float largest = scores[0];
  int at = 0;
  if (count >= kLanes) {
    VF peaks = hn::LoadU(df, scores);
    for (at = kLanes; at + kLanes <= count; at += kLanes) peaks = hn::Max(peaks, hn::LoadU(df, scores + at));
    largest = hn::GetLane(hn::MaxOfLanes(df, peaks));
  }
  for (; at < count; ++at) largest = std::max(largest, scores[at]);
  const VF top = hn::Set(df, largest);
  VF sums = hn::Zero(df);
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const VF weight = hn::Exp(df, hn::Sub(hn::LoadU(df, scores + i), top));
    hn::StoreU(weight, df, scores + i);
    sums = hn::Add(sums, weight);
  }
  float total = hn::GetLane(hn::SumOfLanes(df, sums));
  for (; i < count; ++i) {
    scores[i] = hn::GetLane(hn::Exp(df, hn::Set(df, scores[i] - largest)));
    total += scores[i];
  }
  partial[0] = largest;
  partial[1] = total;
}

/// Calls visit<Q>(first head) for the heads of a row, four at a time.
template <typename Visit>
HWY_INLINE void for_heads(int heads, Visit visit) {
  int h = 0;
  for (; h + 4 <= heads; h += 4) visit(h, std::integral_constant<int, 4>());
  for (; h + 2 <= heads; h += 2) visit(h, std::integral_constant<int, 2>());
  if (h < heads) visit(h, std::integral_constant<int, 1>());
}

void attend_page_target(const Page& page, const PageRow* rows, int row_count, int heads, float* scratch) {
  const int hd = page.head_dim, partial = partial_floats(hd);
  float* tile = scratch;
  float* scores = tile + tile_keys(hd) * hd;  // [query][kKeySplit]
  float* turned =
      scores + kMaxPageQueries * kKeySplit;  // [query][hd], queries turned back to the page's start

  int first = kKeySplit, last = 0;
  for (int r = 0; r < row_count; ++r) {
    first = std::min(first, rows[r].first);
    last = std::max(last, rows[r].last);
    for (int h = 0; h < heads; ++h)
      std::memset(rows[r].partials + h * partial, 0, static_cast<size_t>(partial) * sizeof(float));
    if (page.rope == nullptr) continue;
    float* to = turned + static_cast<size_t>(r * heads) * static_cast<size_t>(hd);
    std::memcpy(to, rows[r].queries, static_cast<size_t>(heads * hd) * sizeof(float));
    for (int h = 0; h < heads; ++h)
      rotate_row(to + h * hd, hd / 2, page.rope->pairs, page.rope->base_cosines, page.rope->base_sines);
  }
  const auto query = [&](int r, int h) {
    return page.rope != nullptr ? turned + static_cast<size_t>(r * heads + h) * static_cast<size_t>(hd)
                                : rows[r].queries + h * hd;
  };
  const auto score = [&](int r, int h) { return scores + static_cast<size_t>(r * heads + h) * kKeySplit; };

  // Tiles are cut to the keys a row sees; where they begin and end changes no sum.
  const int tile_size = tile_keys(hd);
  const auto for_tiles = [&](auto&& load, auto&& use) {
    for (int from = first; from < last; from += tile_size) {
      const int to = std::min(last, from + tile_size);
      load(from, to);
      for (int r = 0; r < row_count; ++r) {
        const int low = std::max(from, rows[r].first), high = std::min(to, rows[r].last);
        if (low < high) use(r, low, high, tile + static_cast<size_t>(low - from) * static_cast<size_t>(hd));
      }
    }
  };

  for_tiles(
      [&](int from, int to) {
        widen_tile(page.keys, page.storage, hd, from, to, tile);
        if (page.rope != nullptr) rebuild_keys(*page.rope, hd, from, to, tile);
      },
      [&](int r, int low, int high, const float* keys) {
        for_heads(heads, [&](int h, auto q_count) {
          constexpr int Q = decltype(q_count)::value;
          const float* queries[Q];
          float* out[Q];
          for (int q = 0; q < Q; ++q) {
            queries[q] = query(r, h + q);
            out[q] = score(r, h + q) + low - rows[r].first;
          }
          dot_keys<Q>(queries, keys, hd, high - low, out);
        });
      });

  for (int r = 0; r < row_count; ++r) {
    if (rows[r].first >= rows[r].last) continue;
    for (int h = 0; h < heads; ++h)
      exponentials(score(r, h), rows[r].last - rows[r].first, rows[r].partials + h * partial);
  }

  for_tiles([&](int from, int to) { widen_tile(page.values, page.storage, hd, from, to, tile); },
            [&](int r, int low, int high, const float* values) {
              for_heads(heads, [&](int h, auto q_count) {
                constexpr int Q = decltype(q_count)::value;
                const float* weights[Q];
                float* accumulators[Q];
                for (int q = 0; q < Q; ++q) {
                  weights[q] = score(r, h + q) + low - rows[r].first;
                  accumulators[q] = rows[r].partials + (h + q) * partial + kPartialHeader;
                }
                add_all_values<Q>(weights, values, hd, high - low, accumulators);
              });
            });
}

void merge_partial_target(const float* partial, int head_dim, float* state) {
  const DF df;
  const float largest = std::max(state[0], partial[0]);
  const float keep = hn::GetLane(hn::Exp(df, hn::Set(df, state[0] - largest)));
  const float take = hn::GetLane(hn::Exp(df, hn::Set(df, partial[0] - largest)));
  state[0] = largest;
  state[1] = std::fma(state[1], keep, partial[1] * take);
  const VF keeps = hn::Set(df, keep), takes = hn::Set(df, take);
  // Partials are padded to whole vectors.
  for (int i = kPartialHeader; i < partial_floats(head_dim); i += kLanes) {
    const VF taken = hn::Mul(hn::LoadU(df, partial + i), takes);
    hn::StoreU(hn::MulAdd(hn::LoadU(df, state + i), keeps, taken), df, state + i);
  }
}

void finish_partial_target(const float* state, int head_dim, float* out) {
  for (int i = 0; i < head_dim; ++i) out[i] = state[kPartialHeader + i] / state[1];
}

}  // namespace slip::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slip::backend::cpu {

HWY_EXPORT(attend_page_target);
HWY_EXPORT(merge_partial_target);
HWY_EXPORT(finish_partial_target);

size_t attend_scratch_floats(int head_dim) {
  return static_cast<size_t>(tile_keys(head_dim) + kMaxPageQueries) * static_cast<size_t>(head_dim) +
         kMaxPageQueries * kKeySplit;
}

void attend_page(const Page& page, const PageRow* rows, int row_count, int heads, float* scratch) {
  HWY_DYNAMIC_DISPATCH(attend_page_target)(page, rows, row_count, heads, scratch);
}
void merge_partial(const float* partial, int head_dim, float* state) {
  HWY_DYNAMIC_DISPATCH(merge_partial_target)(partial, head_dim, state);
}
void finish_partial(const float* state, int head_dim, float* out) {
  HWY_DYNAMIC_DISPATCH(finish_partial_target)(state, head_dim, out);
}

}  // namespace slip::backend::cpu
#endif
