#include "backend/cpu/vision_work.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/dot_rows.h"
#include "backend/cpu/elementwise.h"

namespace slip::backend::cpu {

namespace {

// Weights and rows go through a second-level cache of 1 MiB in tiles: so many bytes of weights stay while all
// rows of a block pass over them, and rows longer than so many steps (of two columns) come in pieces.
constexpr int64_t kTileBytes = 384 * 1024;
constexpr int64_t kTileSteps = 768;

int64_t widest_row(const model::VisionConfig& config) {
  return std::max(
      {config.patch_values(), config.hidden, config.text_hidden, config.q_size(), config.intermediate});
}

void clamp_row(const float* from, int64_t count, float low, float high, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = std::clamp(from[i], low, high);
}

bool limits(float low, float high) {
  return !std::isinf(low) || !std::isinf(high);
}

}  // namespace

VisionWork::VisionWork(Carver& carver, const model::VisionConfig& config, bool narrow) : narrow_(narrow) {
  const int64_t widest = widest_row(config), stride = (widest + 127) / 128 * 128;
  for (FloatRows* rows : {&normed, &first, &second, &third}) {
    rows->stride = stride + 16;  // rows at multiples of 4 KiB would meet in the same sets of the cache
    rows->data = carver.allocate<float>(static_cast<size_t>(kMostRows * rows->stride));
  }
  if (config.layers > 0) attend = AttendScratch(carver, kMostRows, config.head_dim, narrow);
  inputs_ = Rows(carver, kMostRows, widest, ActivationMode::kFloat);
  narrow_stride_ = stride;
  if (narrow) narrow_inputs_ = carver.allocate<uint16_t>(static_cast<size_t>(kMostRows * stride));
  columns_ = carver.allocate<Column>(kMostRows);
}

void VisionWork::multiply(const PackedMatrix& matrix, const model::ClippedMatrix* bounds,
                          const FloatRows& rows, int count, const FloatRows& out) {
  if (narrow_ && matrix.kind == PackedKind::kBf16) {
    multiply_narrow(matrix, bounds, rows, count, out);
  } else {
    multiply_floats(matrix, bounds, rows, count, out);
  }
  if (bounds == nullptr || !limits(bounds->output_min, bounds->output_max)) return;
  for (int i = 0; i < count; ++i) {
    clamp_row(out.row(i), matrix.rows, bounds->output_min, bounds->output_max, out.row(i));
  }
}

void VisionWork::multiply_narrow(const PackedMatrix& matrix, const model::ClippedMatrix* bounds,
                                 const FloatRows& rows, int count, const FloatRows& out) {
  const int64_t cols = matrix.cols, steps = (cols + 1) / 2;
  for (int i = 0; i < count; ++i) {
    uint16_t* to = narrow_inputs_ + i * narrow_stride_;
    const float* from = rows.row(i);
    if (bounds != nullptr && limits(bounds->input_min, bounds->input_max)) {
      clamp_row(from, cols, bounds->input_min, bounds->input_max, inputs_.row(i));
      from = inputs_.row(i);
    }
    store_bf16(from, cols, to);
    if (cols % 2 != 0) to[cols] = 0;
  }
  constexpr int64_t kStepBytes = 4 * kPanelRows;
  const int64_t tile = kTileBytes / (kStepBytes * std::min(steps, kTileSteps)) + 1;
  for (int64_t panel = 0; panel < matrix.panels; panel += tile) {
    for (int64_t step = 0; step < steps; step += kTileSteps) {
      dot_rows(narrow_inputs_ + 2 * step, narrow_stride_, count,
               {.data = matrix.panel(panel) + step * kStepBytes,
                .stride = static_cast<int64_t>(matrix.panel_stride),
                .panels = static_cast<int>(std::min(tile, matrix.panels - panel)),
                .steps = std::min(kTileSteps, steps - step)},
               out.data + panel * kPanelRows, out.stride, step > 0);
    }
  }
}

void VisionWork::multiply_floats(const PackedMatrix& matrix, const model::ClippedMatrix* bounds,
                                 const FloatRows& rows, int count, const FloatRows& out) {
  const int64_t cols = matrix.cols;
  // Affine matrices read whole blocks: what a wider row left behind them must go.
  const int64_t padded = std::min(inputs_.stride(), (cols + 127) / 128 * 128);
  for (int i = 0; i < count; ++i) {
    if (bounds != nullptr) {
      clamp_row(rows.row(i), cols, bounds->input_min, bounds->input_max, inputs_.row(i));
    } else {
      std::memcpy(inputs_.row(i), rows.row(i), static_cast<size_t>(cols) * sizeof(float));
    }
    std::fill(inputs_.row(i) + cols, inputs_.row(i) + padded, 0.0f);
    inputs_.finish(i);
    columns_[i] = inputs_.column(i, out.row(i));
  }
  matmul(matrix, {columns_, static_cast<size_t>(count)}, 0, matrix.panels);
}

}  // namespace slip::backend::cpu
