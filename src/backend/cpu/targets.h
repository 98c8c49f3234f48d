// The instruction sets the kernels are compiled for; the best one the machine has is chosen at run time.
// AVX3_DL is AVX-512 with VNNI (Ice Lake, Zen 4 and later). The rest of Highway's list would double the build
// time for machines that one of these serves as well.
#pragma once

#define HWY_WANT_AVX3_DL 1
#ifdef SLIP_FEW_SIMD_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3)
#elif !defined(HWY_DISABLED_TARGETS)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
