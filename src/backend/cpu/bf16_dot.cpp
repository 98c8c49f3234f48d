// The bf16 half of dot_rows.h. Highway 1.0 has no target with AVX-512 BF16, so this is written with the
// compiler's intrinsics and chosen at run time.
#include <chrono>
#include <cstring>

#include "backend/cpu/dot_rows.h"
#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define SLIP_BF16_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#endif

namespace slip::backend::cpu {

#if defined(__x86_64__)
namespace {

constexpr int kLanes = 16;
constexpr int kMostRows = 8;

SLIP_BF16_DOT inline __m512 load(const float* from) {
  return _mm512_loadu_ps(from);
}

/// R rows times one panel of V vectors.
template <int R, int V>
SLIP_BF16_DOT void panel_of(const uint16_t* x, int64_t x_stride, const uint16_t* panel, int64_t steps,
                            float* out, int64_t out_stride, bool add) {
  __m512 sums[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      sums[r][v] = add ? load(out + r * out_stride + v * kLanes) : _mm512_setzero_ps();
    }
  }
  for (int64_t s = 0; s < steps; ++s, x += 2, panel += 2 * V * kLanes) {
    __m512bh w[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) w[v] = (__m512bh)_mm512_loadu_si512(panel + v * 2 * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      int32_t pair;
      std::memcpy(&pair, x + r * x_stride, sizeof(pair));
      const __m512bh both = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], w[v], both);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) _mm512_storeu_ps(out + r * out_stride + v * kLanes, sums[r][v]);
  }
}

using Kernel = void (*)(const uint16_t*, int64_t, const uint16_t*, int64_t, float*, int64_t, bool);

template <int V>
Kernel kernel_of(int rows) {
  switch (rows) {
    case 1: return panel_of<1, V>;
    case 2: return panel_of<2, V>;
    case 3: return panel_of<3, V>;
    case 4: return panel_of<4, V>;
    case 5: return panel_of<5, V>;
    case 6: return panel_of<6, V>;
    case 7: return panel_of<7, V>;
    default: return panel_of<8, V>;
  }
}

SLIP_BF16_DOT double run_from_registers(int64_t rounds) {
  constexpr int kSums = 16;
  __m512 sums[kSums];
#pragma GCC unroll 16
  for (int i = 0; i < kSums; ++i) sums[i] = _mm512_setzero_ps();
  const auto ones = (__m512bh)_mm512_set1_epi32(0x3f803f80);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      sums[i] = _mm512_dpbf16_ps(sums[i], ones, ones);
      asm volatile("" : "+v"(sums[i]));  // it must be computed, and may stay where it is
    }
  }
  return static_cast<double>(rounds) * kSums * kLanes * 4;
}

}  // namespace

bool has_bf16_dot() {
  return __builtin_cpu_supports("avx512bf16") != 0;
}

void dot_rows(const uint16_t* x, int64_t x_stride, int rows, const DotPanels& panels, float* out,
              int64_t out_stride, bool add) {
  for (int row = 0; row < rows; row += kMostRows) {
    const int count = rows - row < kMostRows ? rows - row : kMostRows;
    const uint16_t* here = x + row * x_stride;
    float* to = out + row * out_stride;
    const Kernel whole = kernel_of<2>(count);
    for (int panel = 0; panel < panels.panels; ++panel) {
      const bool narrow = panel + 1 == panels.panels && panels.last_lanes == kLanes;
      const Kernel kernel = narrow ? kernel_of<1>(count) : whole;
      const auto* data = static_cast<const std::byte*>(panels.data) + panel * panels.stride;
      kernel(here, x_stride, reinterpret_cast<const uint16_t*>(data), panels.steps, to + panel * 2 * kLanes,
             out_stride, add);
    }
  }
}

double measure_dot_peak() {
  if (!has_bf16_dot()) return measure_float_peak();
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const double flops = run_from_registers(400'000);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = flops / seconds.count() > best ? flops / seconds.count() : best;
  }
  return best;
}

#else

bool has_bf16_dot() {
  return false;
}

void dot_rows(const uint16_t*, int64_t, int, const DotPanels&, float*, int64_t, bool) {
  SLIP_CHECK(false);
}

double measure_dot_peak() {
  return measure_float_peak();
}

#endif

}  // namespace slip::backend::cpu
