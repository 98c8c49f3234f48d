#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/matmul.cpp"
#include "backend/cpu/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
// clang-format on
#include <hwy/highway.h>

#include "backend/cpu/math-inl.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/matmul_kernels-inl.h"

SLIP_BEFORE_NAMESPACE();
namespace slip::backend::cpu::HWY_NAMESPACE {

// Weight bytes of a tile that stays in a 1 MiB second-level cache while more rows than one pass serves go
// over it.
inline constexpr size_t kTileBytes = 384 * 1024;

using Kernel = void (*)(const uint8_t* data, int64_t cols, const Column* columns, float* tile);

template <int C, int kBits, int kGroup, bool kWide>
Kernel affine_kernel(int planes) {
  switch (planes) {
    case 0: return affine_float_panel<C, kBits, kGroup, kWide>;
    case 1: return affine_panel<C, kBits, kGroup, kWide, 1>;
    default: return affine_panel<C, kBits, kGroup, kWide, 2>;
  }
}

template <int C, int kBits>
Kernel affine_kernel(const PackedMatrix& matrix, int planes) {
  switch (matrix.group * 2 + matrix.wide_scales) {
    case 64: return affine_kernel<C, kBits, 32, false>(planes);
    case 65: return affine_kernel<C, kBits, 32, true>(planes);
    case 128: return affine_kernel<C, kBits, 64, false>(planes);
    case 129: return affine_kernel<C, kBits, 64, true>(planes);
    case 256: return affine_kernel<C, kBits, 128, false>(planes);
    default: return affine_kernel<C, kBits, 128, true>(planes);
  }
}

template <int C>
Kernel kernel_for(const PackedMatrix& matrix, int planes) {
  switch (matrix.kind) {
    case PackedKind::kBf16: return bf16_panel<C>;
    case PackedKind::kF16: return float_panel<C, LoadF16>;
    case PackedKind::kF32: return float_panel<C, LoadF32>;
    case PackedKind::kAffine4: return affine_kernel<C, 4>(matrix, planes);
    case PackedKind::kAffine8: return affine_kernel<C, 8>(matrix, planes);
  }
  return nullptr;
}

/// Rows the next pass over a panel takes, of those that are left.
inline int pass_width(int remaining) {
  return remaining < kMaxColumns ? remaining : kMaxColumns;
}

Kernel kernel_of_width(const PackedMatrix& matrix, int planes, int width) {
  switch (width) {
    case 1: return kernel_for<1>(matrix, planes);
    case 2: return kernel_for<2>(matrix, planes);
#if HWY_CAP_GE512
    case 3: return kernel_for<3>(matrix, planes);
    case 4: return kernel_for<4>(matrix, planes);
#endif
    default: return nullptr;
  }
}

/// Calls visit(first column, kernel width) for each pass over the columns.
template <typename Visit>
HWY_INLINE void for_each_pass(size_t columns, Visit visit) {
  for (size_t at = 0; at < columns;) {
    const int width = pass_width(static_cast<int>(columns - at < 64 ? columns - at : 64));
    visit(at, width);
    at += static_cast<size_t>(width);
  }
}

void store_tile(const float* tile, const Column* columns, int width, int64_t panel,
                const MatmulOptions& options) {
  const DF df;
  for (int c = 0; c < width; ++c) {
    float* out = columns[c].out + panel * kPanelRows;
    for (int v = 0; v < kVectors; ++v) {
      VF value = hn::LoadU(df, tile + c * kPanelRows + v * kLanes);
      if (options.epilogue == Epilogue::kSoftcap) value = softcap(value, options.softcap);
      hn::StoreU(value, df, out + v * kLanes);
    }
  }
}

void matmul_target(const PackedMatrix& matrix, std::span<const Column> columns, int64_t begin, int64_t end,
                   const MatmulOptions& options) {
  const int planes = columns.empty() ? 0 : columns[0].planes;
  const auto tile_panels = static_cast<int64_t>(kTileBytes / matrix.panel_bytes) + 1;
  alignas(64) float tile[kMaxColumns * kPanelRows];
  for (int64_t first = begin; first < end; first += tile_panels) {
    const int64_t last = first + tile_panels < end ? first + tile_panels : end;
    for_each_pass(columns.size(), [&](size_t at, int width) {
      const Kernel kernel = kernel_of_width(matrix, planes, width);
      for (int64_t panel = first; panel < last; ++panel) {
        kernel(reinterpret_cast<const uint8_t*>(matrix.panel(panel)), matrix.cols, &columns[at], tile);
        store_tile(tile, &columns[at], width, panel, options);
      }
    });
  }
}

void matmul_gated_target(const PackedMatrix& gate, const PackedMatrix& up, model::Activation activation,
                         std::span<const Column> columns, int64_t begin, int64_t end) {
  const int planes = columns.empty() ? 0 : columns[0].planes;
  const auto tile_panels = static_cast<int64_t>(kTileBytes / (gate.panel_bytes + up.panel_bytes)) + 1;
  const DF df;
  alignas(64) float gates[kMaxColumns * kPanelRows], ups[kMaxColumns * kPanelRows];
  for (int64_t first = begin; first < end; first += tile_panels) {
    const int64_t last = first + tile_panels < end ? first + tile_panels : end;
    for_each_pass(columns.size(), [&](size_t at, int width) {
      const Kernel gate_kernel = kernel_of_width(gate, planes, width),
                   up_kernel = kernel_of_width(up, planes, width);
      for (int64_t panel = first; panel < last; ++panel) {
        gate_kernel(reinterpret_cast<const uint8_t*>(gate.panel(panel)), gate.cols, &columns[at], gates);
        up_kernel(reinterpret_cast<const uint8_t*>(up.panel(panel)), up.cols, &columns[at], ups);
        for (int c = 0; c < width; ++c) {
          float* out = columns[at + static_cast<size_t>(c)].out + panel * kPanelRows;
          for (int i = c * kPanelRows; i < (c + 1) * kPanelRows; i += kLanes) {
            const VF x = hn::LoadU(df, gates + i);
            const VF opened = activation == model::Activation::kSilu ? silu(x) : gelu(x);
            hn::StoreU(hn::Mul(opened, hn::LoadU(df, ups + i)), df, out + i - c * kPanelRows);
          }
        }
      }
    });
  }
}

const char* target_name() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace slip::backend::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slip::backend::cpu {

HWY_EXPORT(matmul_target);
HWY_EXPORT(matmul_gated_target);
HWY_EXPORT(target_name);

void matmul(const PackedMatrix& matrix, std::span<const Column> columns, int64_t begin, int64_t end,
            const MatmulOptions& options) {
  HWY_DYNAMIC_DISPATCH(matmul_target)(matrix, columns, begin, end, options);
}

void matmul_gated(const PackedMatrix& gate, const PackedMatrix& up, model::Activation activation,
                  std::span<const Column> columns, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(matmul_gated_target)(gate, up, activation, columns, begin, end);
}

const char* kernel_target() {
  return HWY_DYNAMIC_DISPATCH(target_name)();
}

}  // namespace slip::backend::cpu
#endif
