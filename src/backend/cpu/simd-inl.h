// What the kernels need beyond Highway's common operations, per target: panel vectors, bf16 widening and the
// four-byte integer dot product. Included once per target from the kernel files, between HWY_BEFORE_NAMESPACE
// and HWY_AFTER.
#if defined(SLIP_BACKEND_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLIP_BACKEND_CPU_SIMD_INL_H_
#undef SLIP_BACKEND_CPU_SIMD_INL_H_
#else
#define SLIP_BACKEND_CPU_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

// Highway 1.0 knows the processors with VNNI as one target (AVX3_DL and better) but does not switch the
// instructions on for the compiler, so the kernels open their namespace with a macro of our own.
#undef SLIP_VNNI
#undef SLIP_BEFORE_NAMESPACE
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
#define SLIP_VNNI 1
#define SLIP_BEFORE_NAMESPACE() HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni")
#else
#define SLIP_VNNI 0
#define SLIP_BEFORE_NAMESPACE() HWY_BEFORE_NAMESPACE()
#endif

SLIP_BEFORE_NAMESPACE();
namespace slip::backend::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Never more than 16 lanes: a panel is 32 rows, held in kVectors registers.
using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VU = hn::Vec<DU>;
inline constexpr int kLanes = static_cast<int>(HWY_LANES(float) < 16 ? HWY_LANES(float) : 16);
inline constexpr int kVectors = 32 / kLanes;

// Rows one pass over a panel serves: as many as the register file holds accumulators for.
inline constexpr int kMaxColumns = HWY_CAP_GE512 ? 4 : 2;

/// Sixteen bf16 -> floats of one panel vector.
HWY_INLINE VF widen_bf16(const uint16_t* HWY_RESTRICT from) {
  const DU du;
  const hn::Rebind<uint16_t, DU> du16;
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(du16, from))));
}

/// sum[lane] += the four unsigned bytes of w[lane] times the four signed bytes of x[lane], exactly.
HWY_INLINE VI dot4(VI sum, VI w, VI x) {
#if SLIP_VNNI
  return VI{_mm512_dpbusd_epi32(sum.raw, w.raw, x.raw)};
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  // No saturating byte multiply: split into even and odd bytes and multiply as 16-bit pairs.
  const hn::Repartition<int16_t, DI> d16;
  const auto w16 = hn::BitCast(d16, w), x16 = hn::BitCast(d16, x);
  const auto low = hn::BitCast(d16, hn::Set(DI(), 0x00ff00ff));
  const auto w_even = hn::And(w16, low);
  const auto w_odd =
      hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(hn::RebindToUnsigned<decltype(d16)>(), w16)));
  const auto x_even = hn::ShiftRight<8>(hn::ShiftLeft<8>(x16)), x_odd = hn::ShiftRight<8>(x16);
#if HWY_TARGET == HWY_AVX3
  const VI even{_mm512_madd_epi16(w_even.raw, x_even.raw)}, odd{_mm512_madd_epi16(w_odd.raw, x_odd.raw)};
#else
  const VI even{_mm256_madd_epi16(w_even.raw, x_even.raw)}, odd{_mm256_madd_epi16(w_odd.raw, x_odd.raw)};
#endif
  return hn::Add(sum, hn::Add(even, odd));
#else
  const auto byte = hn::Set(DI(), 0xff);
  sum = hn::Add(sum, hn::Mul(hn::And(w, byte), hn::ShiftRight<24>(hn::ShiftLeft<24>(x))));
  sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<8>(w), byte), hn::ShiftRight<24>(hn::ShiftLeft<16>(x))));
  sum = hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<16>(w), byte), hn::ShiftRight<24>(hn::ShiftLeft<8>(x))));
  return hn::Add(sum, hn::Mul(hn::And(hn::ShiftRight<24>(w), byte), hn::ShiftRight<24>(x)));
#endif
}

/// Four signed bytes in every lane.
HWY_INLINE VI broadcast4(const int8_t* HWY_RESTRICT from) {
  int32_t four;
  std::memcpy(&four, from, sizeof(four));
  return hn::Set(DI(), four);
}

}  // namespace slip::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
