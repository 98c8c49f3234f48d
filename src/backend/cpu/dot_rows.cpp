// The float half of dot_rows.h, for every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/dot_rows.cpp"
#include "backend/cpu/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

#include <algorithm>
#include <chrono>

#include "backend/cpu/dot_rows.h"
#include "backend/cpu/simd-inl.h"

SLIP_BEFORE_NAMESPACE();
namespace slip::backend::cpu::HWY_NAMESPACE {

/// R rows times one panel of V vectors.
template <int R, int V>
void panel_of(const float* x, int64_t x_stride, const float* panel, int64_t steps, float* out,
              int64_t out_stride, bool add) {
  const DF df;
  VF sums[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      sums[r][v] = add ? hn::LoadU(df, out + r * out_stride + v * kLanes) : hn::Zero(df);
    }
  }
  for (int64_t s = 0; s < steps; ++s, panel += V * kLanes) {
    VF w[V];
    for (int v = 0; v < V; ++v) w[v] = hn::LoadU(df, panel + v * kLanes);
    for (int r = 0; r < R; ++r) {
      const VF value = hn::Set(df, x[r * x_stride + s]);
      for (int v = 0; v < V; ++v) sums[r][v] = hn::MulAdd(w[v], value, sums[r][v]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) hn::StoreU(sums[r][v], df, out + r * out_stride + v * kLanes);
  }
}

template <int V>
auto kernel_of(int rows) {
  switch (rows) {
    case 1: return panel_of<1, V>;
    case 2: return panel_of<2, V>;
#if HWY_CAP_GE512
    case 3: return panel_of<3, V>;
    default: return panel_of<4, V>;
#else
    default: return panel_of<2, V>;
#endif
  }
}

void dot_rows_target(const float* x, int64_t x_stride, int rows, const DotPanels& panels, float* out,
                     int64_t out_stride, bool add) {
  for (int row = 0; row < rows; row += kMaxColumns) {
    const int count = rows - row < kMaxColumns ? rows - row : kMaxColumns;
    const auto whole = kernel_of<kVectors>(count);
    for (int panel = 0; panel < panels.panels; ++panel) {
      const bool narrow = panel + 1 == panels.panels && panels.last_lanes == 16;
      const auto kernel = narrow ? kernel_of<kVectors / 2>(count) : whole;
      const auto* data =
          reinterpret_cast<const float*>(static_cast<const std::byte*>(panels.data) + panel * panels.stride);
      kernel(x + row * x_stride, x_stride, data, panels.steps, out + row * out_stride + panel * 32,
             out_stride, add);
    }
  }
}

double run_from_registers_target(int64_t rounds) {
  const DF df;
  constexpr int kSums = HWY_CAP_GE512 ? 16 : 8;
  VF sums[kSums];
  for (VF& sum : sums) sum = hn::Zero(df);
  // Not a constant to the compiler, which could otherwise add it up by itself.
  const VF small = hn::Set(df, static_cast<float>(rounds) * 1e-9f);
  for (int64_t round = 0; round < rounds; ++round) {
    _Pragma("GCC unroll 16") for (int i = 0; i < kSums; ++i) sums[i] = hn::MulAdd(sums[i], small, small);
  }
  for (int i = 1; i < kSums; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  volatile float kept = hn::GetLane(sums[0]);
  (void)kept;
  return static_cast<double>(rounds) * kSums * kLanes * 2;
}

}  // namespace slip::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slip::backend::cpu {

HWY_EXPORT(dot_rows_target);
HWY_EXPORT(run_from_registers_target);

void dot_rows(const float* x, int64_t x_stride, int rows, const DotPanels& panels, float* out,
              int64_t out_stride, bool add) {
  HWY_DYNAMIC_DISPATCH(dot_rows_target)(x, x_stride, rows, panels, out, out_stride, add);
}

double measure_float_peak() {
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const double flops = HWY_DYNAMIC_DISPATCH(run_from_registers_target)(400'000);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, flops / seconds.count());
  }
  return best;
}

}  // namespace slip::backend::cpu
#endif
