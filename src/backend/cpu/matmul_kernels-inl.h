// The panel kernels: one panel of 16 outputs times C rows, results in tile[C][16]. See matmul.h for the order
// of sums and packed_matrix.h for the layouts.
//
// Cost on AVX-512 VNNI, 4 bits, per 64 columns of a panel (576 bytes): 16 loads and ands, then, per row, 32
// dot instructions (16 with one plane) and 12 float ones: about 40 cycles for one row. A 3.5 GHz core could
// stream 50 GB/s with one row and waits for memory instead; two rows are nearly free on two cores that share
// 50 GB/s.
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

// Bytes ahead of the stream that are fetched by hand. The hardware's own prefetcher stops at page ends and
// needs a few lines to find a new panel; 1.5 KiB covers a memory latency of about 100 ns at 15 GB/s per core.
inline constexpr size_t kPrefetch = 1536;

HWY_INLINE void prefetch(const uint8_t* at) {
  __builtin_prefetch(at + kPrefetch, 0, 0);
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
  for (int64_t k = 0; k + 1 < cols; k += 2, data += 64) {
    prefetch(data);
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
    prefetch(data);
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

/// Exact integer dot products of 32 columns (half 0 or 1 of a sub-block of 64) with C rows of P planes each:
/// with two planes a row is 256 * high + low. The second half of a 4-bit block comes out times 1 /
/// kHalfScale.
template <int C, int kBits, int P>
HWY_INLINE void dot32(const uint8_t* HWY_RESTRICT codes, int half, const int8_t* const* HWY_RESTRICT x,
                      VI (&dots)[C][kVectors]) {
  const DI di;
  VI sums[P][C][kVectors];
  for (int p = 0; p < P; ++p) {
    for (int c = 0; c < C; ++c) {
      for (int v = 0; v < kVectors; ++v) sums[p][c][v] = hn::Zero(di);
    }
  }
  // With VNNI the high nibbles stay where they are, sixteen times too large: saves a shift.
  const VI mask = hn::Set(di, SLIP_VNNI != 0 && half == 1 ? static_cast<int32_t>(0xf0f0f0f0u) : 0x0f0f0f0f);
  const uint8_t* from = kBits == 8 ? codes + half * 512 : codes;
  for (int s = 0; s < 8; ++s) {
    if (kBits == 8 || half == 0) prefetch(from + s * 64);
    for (int v = 0; v < kVectors; ++v) {
      VI w = hn::LoadU(di, reinterpret_cast<const int32_t*>(from + s * 64) + v * kLanes);
      if constexpr (kBits == 4) {
#if !SLIP_VNNI
        if (half == 1) w = hn::ShiftRight<4>(w);
#endif
        w = hn::And(w, mask);
      }
      for (int c = 0; c < C; ++c) {
        for (int p = 0; p < P; ++p)
          sums[p][c][v] = dot4(sums[p][c][v], w, broadcast4(x[c] + p * kQuantBlock + 4 * s));
      }
    }
  }
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v) {
      dots[c][v] = P == 1 ? sums[0][c][v] : hn::Add(hn::ShiftLeft<8>(sums[0][c][v]), sums[P - 1][c][v]);
    }
  }
}

// A power of two, so undoing it in the activation's scale changes no bit.
template <int kBits>
inline constexpr float kHalfScale[2] = {1.0f, SLIP_VNNI != 0 && kBits == 4 ? 0.0625f : 1.0f};

/// Affine weights, rows of P planes of 8 bits.
template <int C, int kBits, int kGroup, bool kWide, int P>
HWY_INLINE void affine_panel(const uint8_t* HWY_RESTRICT data, int64_t cols,
                             const Column* HWY_RESTRICT columns, float* HWY_RESTRICT tile) {
  constexpr int kBlock = kGroup > 64 ? kGroup : 64;
  constexpr size_t kScaleBytes = kPanelRows * (kWide ? 4 : 2);
  constexpr size_t kHeader = (kBlock / kGroup) * 2 * kScaleBytes;
  constexpr size_t kSubBytes = 64 * kPanelRows * kBits / 8;
  const DF df;
  VF sum[C][kVectors];
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v) sum[c][v] = hn::Zero(df);
  }
  int64_t block = 0;  // of 32 columns
  for (int64_t k = 0; k < cols; k += kBlock, data += kHeader + kSubBytes * (kBlock / 64)) {
    prefetch(data);
    for (int in_block = 0; in_block < kBlock / 32; ++in_block, ++block) {
      VI dots[C][kVectors];
      const int8_t* x[C];
      for (int c = 0; c < C; ++c) x[c] = columns[c].codes + block * (P * kQuantBlock);
      dot32<C, kBits, P>(data + kHeader + kSubBytes * static_cast<size_t>(in_block / 2), in_block % 2, x,
                         dots);
      const uint8_t* scales = data + (kGroup == 32 ? static_cast<size_t>(in_block) * 2 * kScaleBytes : 0);
      for (int v = 0; v < kVectors; ++v) {
        const VF scale = load_scale<kWide>(scales, v), bias = load_scale<kWide>(scales + kScaleBytes, v);
        for (int c = 0; c < C; ++c) {
          const VF x_scale = hn::Set(df, columns[c].scales[block] * kHalfScale<kBits>[in_block % 2]);
          sum[c][v] = hn::MulAdd(hn::Mul(hn::ConvertTo(df, dots[c][v]), x_scale), scale, sum[c][v]);
          sum[c][v] = hn::MulAdd(hn::Set(df, columns[c].sums[block]), bias, sum[c][v]);
        }
      }
    }
  }
  for (int c = 0; c < C; ++c) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[c][v], df, tile + c * kPanelRows + v * kLanes);
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
          VI four = hn::LoadU(di, reinterpret_cast<const int32_t*>(sub + step * 64) + v * kLanes);
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
          sum[c][v] =
              hn::MulAdd(hn::Set(df, columns[c].sums[(k + half * 32) / kQuantBlock]), bias, sum[c][v]);
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
