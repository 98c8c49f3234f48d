// tanh and what is built on it, for panel vectors; the same bits for a lane whatever stands in the other
// lanes.
#if defined(SLIP_BACKEND_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SLIP_BACKEND_CPU_MATH_INL_H_
#undef SLIP_BACKEND_CPU_MATH_INL_H_
#else
#define SLIP_BACKEND_CPU_MATH_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include "backend/cpu/simd-inl.h"

SLIP_BEFORE_NAMESPACE();
namespace slip::backend::cpu::HWY_NAMESPACE {

/// (e^2x - 1) / (e^2x + 1). Highway's Tanh also keeps the relative error of tiny arguments small, which
/// nothing here needs, and does more work for it at the end of a panel, where no load is in flight.
HWY_INLINE VF tanh(VF x) {
  const DF df;
  const VF bounded =
      hn::Min(hn::Max(x, hn::Set(df, -10.0f)), hn::Set(df, 10.0f));  // beyond, it is 1 to the last bit
  const VF e = hn::Exp(df, hn::Add(bounded, bounded)), one = hn::Set(df, 1.0f);
  return hn::Div(hn::Sub(e, one), hn::Add(e, one));
}

/// cap * tanh(x / cap)
HWY_INLINE VF softcap(VF x, float cap) {
  const DF df;
  return hn::Mul(hn::Set(df, cap), tanh(hn::Mul(x, hn::Set(df, 1.0f / cap))));
}

/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
HWY_INLINE VF gelu(VF x) {
  const DF df;
  const VF cubed = hn::Mul(hn::Mul(x, x), x);
  const VF inner = hn::Mul(hn::Set(df, 0.7978845608028654f), hn::MulAdd(hn::Set(df, 0.044715f), cubed, x));
  return hn::Mul(hn::Mul(hn::Set(df, 0.5f), x), hn::Add(hn::Set(df, 1.0f), tanh(inner)));
}

/// x / (1 + e^-x)
HWY_INLINE VF silu(VF x) {
  const DF df;
  const VF one = hn::Set(df, 1.0f);
  // Beyond -80 the result is 0 to every float nearby, and e^80 is still finite.
  return hn::Div(x, hn::Add(one, hn::Exp(df, hn::Min(hn::Neg(x), hn::Set(df, 80.0f)))));
}

}  // namespace slip::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
