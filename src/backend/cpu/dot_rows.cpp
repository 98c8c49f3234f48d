// The float half of dot_rows.h, for every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/dot_rows.cpp"
#include "backend/cpu/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

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

}  // namespace slip::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slip::backend::cpu {

HWY_EXPORT(dot_rows_target);

void dot_rows(const float* x, int64_t x_stride, int rows, const DotPanels& panels, float* out,
              int64_t out_stride, bool add) {
  HWY_DYNAMIC_DISPATCH(dot_rows_target)(x, x_stride, rows, panels, out, out_stride, add);
}

}  // namespace slip::backend::cpu
#endif
