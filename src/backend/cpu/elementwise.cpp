#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise.cpp"
#include "backend/cpu/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

#include <cmath>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/math-inl.h"
#include "backend/cpu/matmul.h"

SLIP_BEFORE_NAMESPACE();
namespace slip::backend::cpu::HWY_NAMESPACE {

/// 1 / sqrt(mean(x^2) + epsilon), four accumulators by position, then the tail one by one.
float inverse_rms(const float* HWY_RESTRICT x, int64_t count, float epsilon) {
  const DF df;
  VF sums[4] = {hn::Zero(df), hn::Zero(df), hn::Zero(df), hn::Zero(df)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      const VF v = hn::LoadU(df, x + i + j * kLanes);
      sums[j] = hn::MulAdd(v, v, sums[j]);
    }
  }
  const VF all = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  float total = hn::GetLane(hn::SumOfLanes(df, all));
  for (; i < count; ++i) total += x[i] * x[i];
  return 1.0f / std::sqrt(total / static_cast<float>(count) + epsilon);
}

/// Calls `vector(i)` for whole vectors and `scalar(i)` for the rest.
template <typename Vector, typename Scalar>
HWY_INLINE void for_row(int64_t count, Vector vector, Scalar scalar) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) vector(i);
  for (; i < count; ++i) scalar(i);
}

void norm_row_target(const float* x, const float* weight, int64_t count, float epsilon, float* out) {
  const DF df;
  const float scale = inverse_rms(x, count, epsilon);
  const VF scales = hn::Set(df, scale);
  if (weight == nullptr) {
    for_row(
        count, [&](int64_t i) HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(df, x + i), scales), df, out + i); },
        [&](int64_t i) { out[i] = x[i] * scale; });
  } else {
    for_row(
        count,
        [&](int64_t i) HWY_ATTR {
          hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(df, x + i), scales), hn::LoadU(df, weight + i)), df, out + i);
        },
        [&](int64_t i) { out[i] = x[i] * scale * weight[i]; });
  }
}

void add_norm_row_target(const float* x, const float* weight, int64_t count, float epsilon, float* stream) {
  const DF df;
  const float scale = inverse_rms(x, count, epsilon);
  const VF scales = hn::Set(df, scale);
  for_row(
      count,
      [&](int64_t i) HWY_ATTR {
        const VF normed = hn::Mul(hn::Mul(hn::LoadU(df, x + i), scales), hn::LoadU(df, weight + i));
        hn::StoreU(hn::Add(hn::LoadU(df, stream + i), normed), df, stream + i);
      },
      [&](int64_t i) { stream[i] += x[i] * scale * weight[i]; });
}

void scale_row_target(float* x, float factor, int64_t count) {
  const DF df;
  const VF factors = hn::Set(df, factor);
  for_row(
      count, [&](int64_t i) HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(df, x + i), factors), df, x + i); },
      [&](int64_t i) { x[i] *= factor; });
}

void add_scaled_row_target(const float* from, float factor, int64_t count, float* to) {
  const DF df;
  const VF factors = hn::Set(df, factor);
  for_row(
      count,
      [&](int64_t i) HWY_ATTR {
        hn::StoreU(hn::MulAdd(hn::LoadU(df, from + i), factors, hn::LoadU(df, to + i)), df, to + i);
      },
      [&](int64_t i) { to[i] = std::fma(from[i], factor, to[i]); });
}

void mix_rows_target(const float* a, const float* b, float b_scale, float factor, int64_t count, float* out) {
  const DF df;
  const VF scales = hn::Set(df, b_scale), factors = hn::Set(df, factor);
  for_row(
      count,
      [&](int64_t i) HWY_ATTR {
        const VF sum = hn::MulAdd(hn::LoadU(df, b + i), scales, hn::LoadU(df, a + i));
        hn::StoreU(hn::Mul(sum, factors), df, out + i);
      },
      [&](int64_t i) { out[i] = std::fma(b[i], b_scale, a[i]) * factor; });
}

void gelu_times_row_target(float* x, const float* y, int64_t count) {
  const DF df;
  alignas(64) float tail[kLanes] = {};
  for_row(
      count,
      [&](int64_t i)
          HWY_ATTR { hn::StoreU(hn::Mul(gelu(hn::LoadU(df, x + i)), hn::LoadU(df, y + i)), df, x + i); },
      [&](int64_t i) HWY_ATTR {
        tail[0] = x[i];
        x[i] = hn::GetLane(gelu(hn::Load(df, tail))) * y[i];
      });
}

void rotate_row_target(float* head, int64_t half, int64_t pairs, const float* cosines, const float* sines) {
  const DF df;
  for_row(
      pairs,
      [&](int64_t i) HWY_ATTR {
        const VF a = hn::LoadU(df, head + i), b = hn::LoadU(df, head + half + i);
        const VF c = hn::LoadU(df, cosines + i), s = hn::LoadU(df, sines + i);
        hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), df, head + i);
        hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), df, head + half + i);
      },
      [&](int64_t i) {
        const float a = head[i], b = head[half + i];
        head[i] = std::fma(-b, sines[i], a * cosines[i]);
        head[half + i] = std::fma(a, sines[i], b * cosines[i]);
      });
}

template <int P>
void quantise_blocks(const float* x, int64_t count, int8_t* codes, float* scales, float* sums) {
  const DF df;
  const DI di;
  const hn::Rebind<int8_t, DI> d8;
  static_assert(kSumBlock % kLanes == 0);
  constexpr float kLargest = P == 1 ? 127.0f : 32639.0f;
  for (int64_t block = 0; block < count / kQuantBlock; ++block, codes += P * kQuantBlock) {
    const float* in = x + block * kQuantBlock;
    VF largest = hn::Zero(df);
    for (int i = 0; i < kQuantBlock; i += kLanes) largest = hn::Max(largest, hn::Abs(hn::LoadU(df, in + i)));
    const float peak = hn::GetLane(hn::MaxOfLanes(df, largest));
    const float scale = peak / kLargest;
    const VF inverses = hn::Set(df, peak > 0 ? kLargest / peak : 0.0f);
    scales[block] = scale;
    for (int half = 0; half < kQuantBlock; half += kSumBlock) {
      VI total = hn::Zero(di);
      for (int i = half; i < half + kSumBlock; i += kLanes) {
        const VI code = hn::NearestInt(hn::Mul(hn::LoadU(df, in + i), inverses));
        total = hn::Add(total, code);
        if constexpr (P == 1) {
          hn::StoreU(hn::DemoteTo(d8, code), d8, codes + i);
        } else {
          const VI low = hn::ShiftRight<24>(hn::ShiftLeft<24>(code));
          hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<8>(hn::Sub(code, low))), d8, codes + i);
          hn::StoreU(hn::DemoteTo(d8, low), d8, codes + kQuantBlock + i);
        }
      }
      *sums++ = scale * static_cast<float>(hn::GetLane(hn::SumOfLanes(di, total)));
    }
  }
}

void quantise_row_target(const float* x, int64_t count, int planes, int8_t* codes, float* scales,
                         float* sums) {
  if (planes == 1) {
    quantise_blocks<1>(x, count, codes, scales, sums);
  } else {
    quantise_blocks<2>(x, count, codes, scales, sums);
  }
}

void sum_blocks_target(const float* x, int64_t count, float* sums) {
  const DF df;
  for (int64_t block = 0; block < count / kSumBlock; ++block) {
    VF total = hn::Zero(df);
    for (int i = 0; i < kSumBlock; i += kLanes)
      total = hn::Add(total, hn::LoadU(df, x + block * kSumBlock + i));
    sums[block] = hn::GetLane(hn::SumOfLanes(df, total));
  }
}

void store_bf16_target(const float* x, int64_t count, uint16_t* out) {
  const DU du;
  const hn::Rebind<uint16_t, DU> d16;
  const VU one = hn::Set(du, 1), half = hn::Set(du, 0x7fff);
  const auto round = [&](VU bits) HWY_ATTR {
    return hn::ShiftRight<16>(hn::Add(bits, hn::Add(half, hn::And(hn::ShiftRight<16>(bits), one))));
  };
  const auto* bits = reinterpret_cast<const uint32_t*>(x);
  for_row(
      count,
      [&](int64_t i) HWY_ATTR {
        hn::StoreU(hn::DemoteTo(d16, hn::BitCast(DI(), round(hn::LoadU(du, bits + i)))), d16, out + i);
      },
      [&](int64_t i) { out[i] = static_cast<uint16_t>((bits[i] + 0x7fffu + ((bits[i] >> 16) & 1u)) >> 16); });
}

}  // namespace slip::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slip::backend::cpu {

HWY_EXPORT(norm_row_target);
HWY_EXPORT(add_norm_row_target);
HWY_EXPORT(scale_row_target);
HWY_EXPORT(add_scaled_row_target);
HWY_EXPORT(mix_rows_target);
HWY_EXPORT(gelu_times_row_target);
HWY_EXPORT(rotate_row_target);
HWY_EXPORT(quantise_row_target);
HWY_EXPORT(sum_blocks_target);
HWY_EXPORT(store_bf16_target);

void norm_row(const float* x, const float* weight, int64_t count, float epsilon, float* out) {
  HWY_DYNAMIC_DISPATCH(norm_row_target)(x, weight, count, epsilon, out);
}
void add_norm_row(const float* x, const float* weight, int64_t count, float epsilon, float* stream) {
  HWY_DYNAMIC_DISPATCH(add_norm_row_target)(x, weight, count, epsilon, stream);
}
void scale_row(float* x, float factor, int64_t count) {
  HWY_DYNAMIC_DISPATCH(scale_row_target)(x, factor, count);
}
void add_scaled_row(const float* from, float factor, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(add_scaled_row_target)(from, factor, count, to);
}
void mix_rows(const float* a, const float* b, float b_scale, float factor, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(mix_rows_target)(a, b, b_scale, factor, count, out);
}
void gelu_times_row(float* x, const float* y, int64_t count) {
  HWY_DYNAMIC_DISPATCH(gelu_times_row_target)(x, y, count);
}
void rotate_row(float* head, int64_t half, int64_t pairs, const float* cosines, const float* sines) {
  HWY_DYNAMIC_DISPATCH(rotate_row_target)(head, half, pairs, cosines, sines);
}
void quantise_row(const float* x, int64_t count, int planes, int8_t* codes, float* scales, float* sums) {
  HWY_DYNAMIC_DISPATCH(quantise_row_target)(x, count, planes, codes, scales, sums);
}
void sum_blocks(const float* x, int64_t count, float* sums) {
  HWY_DYNAMIC_DISPATCH(sum_blocks_target)(x, count, sums);
}
void store_bf16(const float* x, int64_t count, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(store_bf16_target)(x, count, out);
}

}  // namespace slip::backend::cpu
#endif
