// The panel kernels: one panel of 32 outputs times C rows, results in tile[C][32]. See matmul.h for the order
// of sums and packed_matrix.h for the layouts.
//
// Cost on AVX-512 VNNI per 64 columns of a panel and row, two planes: 64 dot instructions (one a cycle), 64
// broadcasts shared by two registers each, 12 others; one row alone waits for memory, from about the third on
// the dots are the limit.
#if defined(SLIP_BACKEND_CPU_MATMUL_KERNELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLIP_BACKEND_CPU_MATMUL_KERNELS_INL_H_
#undef SLIP_BACKEND_CPU_MATMUL_KERNELS_INL_H_
#else
#define SLIP_BACKEND_CPU_MATMUL_KERNELS_INL_H_
#endif

#include "backend/cpu/matmul.h"
#include "backend/cpu/simd-inl.h"

SLIP_BEFORE_NAMESPACE();
namespace slip::backend::cpu::HWY_NAMESPACE {

// Bytes ahead of the stream that are fetched by hand where rows share a pass: their arithmetic fills the
// window in which the processor would look ahead by itself. With little arithmetic the hardware prefetcher
// alone is faster: two threads on a Zen 4 at 66 GB/s, 4-bit weights, reach 64 GB/s without for one row of two
// planes (8 bits each) and 63 for two rows of one plane (51 with); but 52 without and 55 with for two rows of
// two planes, and 25 and 28 for four.
inline constexpr size_t kPrefetch = 3072;

// The compiler must unroll loops over accumulators before it decides what lives in registers; left alone, GCC
// 12 keeps some of them in memory.
#define SLIP_UNROLL _Pragma("GCC unroll 16")

/// Floats count as two planes.
template <int kRows, int kPlanes = 2>
HWY_INLINE void prefetch(const uint8_t* at) {
  if constexpr (kRows * kPlanes > 3) __builtin_prefetch(at + kPrefetch, 0, 3);
}

/// bf16, f16 and f32 weights, float rows.
template <int C>
HWY_INLINE void bf16_panel(const uint8_t* HWY_RESTRICT data, int64_t cols, const Column* HWY_RESTRICT columns,
                           float* HWY_RESTRICT tile) {
  const DF df;
  const DU du;
  VF even[C][kVectors], odd[C][kVectors];
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v) even[c][v] = odd[c][v] = hn::Zero(df);
  }
  const auto high = hn::Set(du, 0xffff0000u);
  for (int64_t k = 0; k + 1 < cols; k += 2, data += 4 * kPanelRows) {
    prefetch<C>(data);
    prefetch<C>(data + 64);
    for (int v = 0; v < kVectors; ++v) {
      const VU pair = hn::LoadU(du, reinterpret_cast<const uint32_t*>(data) + v * kLanes);
      const VF w0 = hn::BitCast(df, hn::ShiftLeft<16>(pair)), w1 = hn::BitCast(df, hn::And(pair, high));
      for (int c = 0; c < C; ++c) {
        even[c][v] = hn::MulAdd(w0, hn::Set(df, columns[c].values[k]), even[c][v]);
        odd[c][v] = hn::MulAdd(w1, hn::Set(df, columns[c].values[k + 1]), odd[c][v]);
      }
    }
  }
  if (cols % 2 != 0) {
    for (int v = 0; v < kVectors; ++v) {
      const VF w0 = hn::BitCast(
          df, hn::ShiftLeft<16>(hn::LoadU(du, reinterpret_cast<const uint32_t*>(data) + v * kLanes)));
      for (int c = 0; c < C; ++c)
        even[c][v] = hn::MulAdd(w0, hn::Set(df, columns[c].values[cols - 1]), even[c][v]);
    }
  }
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(hn::Add(even[c][v], odd[c][v]), df, tile + c * kPanelRows + v * kLanes);
  }
}

struct LoadF32 {
  static constexpr int kBytes = 4;
  HWY_INLINE VF operator()(const uint8_t* from) const {
    return hn::LoadU(DF(), reinterpret_cast<const float*>(from));
  }
};
struct LoadF16 {
  static constexpr int kBytes = 2;
  HWY_INLINE VF operator()(const uint8_t* from) const {
    const hn::Rebind<hwy::float16_t, DF> d16;
    return hn::PromoteTo(DF(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(from)));
  }
};

template <int C, class Load>
HWY_INLINE void float_panel(const uint8_t* HWY_RESTRICT data, int64_t cols,
                            const Column* HWY_RESTRICT columns, float* HWY_RESTRICT tile) {
  const DF df;
  VF sums[2][C][kVectors];
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v) sums[0][c][v] = sums[1][c][v] = hn::Zero(df);
  }
  const auto column = [&](int64_t k, VF(&sum)[C][kVectors]) HWY_ATTR {
    prefetch<C>(data);
    for (int v = 0; v < kVectors; ++v) {
      const VF w = Load()(data + static_cast<size_t>(v * kLanes) * Load::kBytes);
      for (int c = 0; c < C; ++c) sum[c][v] = hn::MulAdd(w, hn::Set(df, columns[c].values[k]), sum[c][v]);
    }
    data += kPanelRows * Load::kBytes;
  };
  int64_t k = 0;
  for (; k + 1 < cols; k += 2) {
    column(k, sums[0]);
    column(k + 1, sums[1]);
  }
  if (k < cols) column(k, sums[0]);
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v)
      hn::StoreU(hn::Add(sums[0][c][v], sums[1][c][v]), df, tile + c * kPanelRows + v * kLanes);
  }
}

/// Scales and biases of one group for the panel's rows.
template <bool kWide>
HWY_INLINE VF load_scale(const uint8_t* from, int v) {
  if constexpr (kWide) return hn::LoadU(DF(), reinterpret_cast<const float*>(from) + v * kLanes);
  return widen_bf16(reinterpret_cast<const uint16_t*>(from) + v * kLanes);
}

/// Four columns of a panel times those of C rows. A broadcast activation is used for all registers of the
/// panel at once and then dead; any other order runs out of registers. Two planes have a sum each; one plane
/// uses the two in turns (`turn`).
template <int C, int P>
HWY_INLINE void add_dots(const VI (&w)[kVectors], const int8_t* const* HWY_RESTRICT x, int column, int turn,
                         VI (&sums)[2][C][kVectors]) {
  SLIP_UNROLL for (int c = 0; c < C; ++c) {
    SLIP_UNROLL for (int p = 0; p < P; ++p) {
      const VI four = broadcast4(x[c] + p * kQuantBlock + column);
      VI(&to)[kVectors] = sums[P == 1 ? turn : p][c];
      SLIP_UNROLL for (int v = 0; v < kVectors; ++v) to[v] = dot4(to[v], w[v], four);
    }
  }
}

/// Exact integer dot products of one block's columns with C rows of P planes each. kWhole: all 64 columns of
/// the block; otherwise 32 of them, half 0 or 1.
template <int C, int kBits, int P, bool kWhole>
HWY_INLINE void dot_block(const uint8_t* HWY_RESTRICT codes, int half, const int8_t* const* HWY_RESTRICT x,
                          VI (&sums)[2][C][kVectors]) {
  constexpr int kStep = 4 * kPanelRows;  // bytes of four columns, 8 bits each
  const DI di;
  SLIP_UNROLL for (int i = 0; i < 2; ++i) {
    SLIP_UNROLL for (int c = 0; c < C; ++c) {
      SLIP_UNROLL for (int v = 0; v < kVectors; ++v) sums[i][c][v] = hn::Zero(di);
    }
  }
  const VI low = hn::Set(di, 0x0f0f0f0f);
  for (int s = 0; s < (kBits == 8 && kWhole ? 16 : 8); ++s) {
    const uint8_t* from = codes + (kBits == 8 && !kWhole ? s + 8 * half : s) * kStep;
    if (kBits == 8 || kWhole || half == 0) {
      prefetch<C, P>(from);
      prefetch<C, P>(from + 64);
    }
    VI w[kVectors], nibbles[kVectors];
    SLIP_UNROLL for (int v = 0; v < kVectors; ++v) w[v] =
        hn::LoadU(di, reinterpret_cast<const int32_t*>(from) + v * kLanes);
    if constexpr (kBits == 8) {
      add_dots<C, P>(w, x, kWhole ? 4 * s : 4 * s + 32 * half, 0, sums);
    } else {
      if (kWhole || half == 0) {
        SLIP_UNROLL for (int v = 0; v < kVectors; ++v) nibbles[v] = hn::And(w[v], low);
        add_dots<C, P>(nibbles, x, 4 * s, 0, sums);
      }
      if (kWhole || half == 1) {
        SLIP_UNROLL for (int v = 0; v < kVectors; ++v) nibbles[v] = hn::And(hn::ShiftRight<4>(w[v]), low);
        add_dots<C, P>(nibbles, x, 32 + 4 * s, 1, sums);
      }
    }
  }
}

/// Affine weights, rows of P planes of 8 bits. The running sums live in the tile, in the first-level cache:
/// the integer accumulators of four rows need the registers.
template <int C, int kBits, int kGroup, bool kWide, int P>
HWY_INLINE void affine_panel(const uint8_t* HWY_RESTRICT data, int64_t cols,
                             const Column* HWY_RESTRICT columns, float* HWY_RESTRICT tile) {
  constexpr int kBlock = kGroup > 64 ? kGroup : 64;
  constexpr int kDots = kGroup == 32 ? 2 : 1;  // per 64 columns
  constexpr size_t kScaleBytes = kPanelRows * (kWide ? 4 : 2);
  constexpr size_t kHeader = (kBlock / kGroup) * 2 * kScaleBytes;
  constexpr size_t kSubBytes = 64 * kPanelRows * kBits / 8;
  const DF df;
  for (int i = 0; i < C * kPanelRows; i += kLanes) hn::StoreU(hn::Zero(df), df, tile + i);
  int64_t block = 0;  // of 64 columns
  for (int64_t k = 0; k < cols; k += kBlock, data += kHeader + kSubBytes * (kBlock / 64)) {
    prefetch<C, P>(data);
    prefetch<C, P>(data + 64);
    for (int sub = 0; sub < kBlock / 64; ++sub, ++block) {
      const int8_t* x[C];
      SLIP_UNROLL for (int c = 0; c < C; ++c) x[c] = columns[c].codes + block * (P * kQuantBlock);
      for (int half = 0; half < kDots; ++half) {
        VI dots[2][C][kVectors];
        dot_block<C, kBits, P, kDots == 1>(data + kHeader + kSubBytes * static_cast<size_t>(sub), half, x,
                                           dots);
        const uint8_t* scales = data + static_cast<size_t>(half) * 2 * kScaleBytes;
        SLIP_UNROLL for (int v = 0; v < kVectors; ++v) {
          const VF scale = load_scale<kWide>(scales, v), bias = load_scale<kWide>(scales + kScaleBytes, v);
          SLIP_UNROLL for (int c = 0; c < C; ++c) {
            float* at = tile + c * kPanelRows + v * kLanes;
            const float* x_sums = columns[c].sums + 2 * block;
            const VF x_scale = hn::Set(df, columns[c].scales[block]);
            const VF x_sum = hn::Set(df, kDots == 1 ? x_sums[0] + x_sums[1] : x_sums[half]);
            // Two planes mean 256 * first + second.
            const VI first = P == 1 ? dots[0][c][v] : hn::ShiftLeft<8>(dots[0][c][v]);
            const VI dot = hn::Add(first, dots[1][c][v]);
            const VF scaled = hn::Mul(hn::ConvertTo(df, dot), x_scale);
            hn::StoreU(hn::MulAdd(x_sum, bias, hn::MulAdd(scaled, scale, hn::LoadU(df, at))), df, at);
          }
        }
        asm volatile("" ::: "memory");  // keeps the compiler from moving the sums back into registers
      }
    }
  }
}

/// Affine weights, float rows: the path without activation rounding, for comparing with references.
template <int C, int kBits, int kGroup, bool kWide>
HWY_INLINE void affine_float_panel(const uint8_t* HWY_RESTRICT data, int64_t cols,
                                   const Column* HWY_RESTRICT columns, float* HWY_RESTRICT tile) {
  constexpr int kBlock = kGroup > 64 ? kGroup : 64;
  constexpr size_t kScaleBytes = kPanelRows * (kWide ? 4 : 2);
  constexpr size_t kHeader = (kBlock / kGroup) * 2 * kScaleBytes;
  constexpr size_t kSubBytes = 64 * kPanelRows * kBits / 8;
  const DF df;
  const DI di;
  VF sum[C][kVectors];
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v) sum[c][v] = hn::Zero(df);
  }
  const VI mask = hn::Set(di, kBits == 4 ? 15 : 255);
  for (int64_t k = 0; k < cols; k += kBlock, data += kHeader + kSubBytes * (kBlock / 64)) {
    for (int half = 0; half < kBlock / 32; ++half) {
      const uint8_t* scales = data + (kGroup == 32 ? static_cast<size_t>(half) * 2 * kScaleBytes : 0);
      const uint8_t* sub = data + kHeader + kSubBytes * static_cast<size_t>(half / 2);
      for (int v = 0; v < kVectors; ++v) {
        VF even[C], odd[C];
        for (int c = 0; c < C; ++c) even[c] = odd[c] = hn::Zero(df);
        for (int s = 0; s < 8; ++s) {
          const int step = kBits == 4 ? s : s + 8 * (half % 2);
          VI four = hn::LoadU(di, reinterpret_cast<const int32_t*>(sub + step * 4 * kPanelRows) + v * kLanes);
          if (kBits == 4 && half % 2 == 1) four = hn::ShiftRight<4>(four);
          const VF w0 = hn::ConvertTo(df, hn::And(four, mask)),
                   w1 = hn::ConvertTo(df, hn::And(hn::ShiftRight<8>(four), mask));
          const VF w2 = hn::ConvertTo(df, hn::And(hn::ShiftRight<16>(four), mask));
          const VF w3 = hn::ConvertTo(df, hn::And(hn::ShiftRight<24>(four), mask));
          for (int c = 0; c < C; ++c) {
            const float* x = columns[c].values + k + half * 32 + s * 4;
            even[c] = hn::MulAdd(w2, hn::Set(df, x[2]), hn::MulAdd(w0, hn::Set(df, x[0]), even[c]));
            odd[c] = hn::MulAdd(w3, hn::Set(df, x[3]), hn::MulAdd(w1, hn::Set(df, x[1]), odd[c]));
          }
        }
        const VF scale = load_scale<kWide>(scales, v), bias = load_scale<kWide>(scales + kScaleBytes, v);
        for (int c = 0; c < C; ++c) {
          sum[c][v] = hn::MulAdd(hn::Add(even[c], odd[c]), scale, sum[c][v]);
          sum[c][v] = hn::MulAdd(hn::Set(df, columns[c].sums[(k + half * 32) / kSumBlock]), bias, sum[c][v]);
        }
      }
    }
  }
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[c][v], df, tile + c * kPanelRows + v * kLanes);
  }
}

}  // namespace slip::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
