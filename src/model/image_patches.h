// ImagePatches: one image (or video frame) as a vision tower takes it: resized to a grid of whole patches,
// row by row from the top. The values of a patch are described at VisionConfig::patch_values().
#pragma once

#include <cstddef>
#include <span>

#include "model/vision.h"

namespace slip::model {

struct ImagePatches {
  int rows = 0, columns = 0;  // of the grid of patches
  // [rows * columns, patch values], 0 to 1; patch i stands at column i % columns, row i / columns.
  std::span<const float> values;

  int count() const { return rows * columns; }
};

/// How many soft rows the image becomes.
inline int soft_rows(const VisionConfig& config, const ImagePatches& image) {
  return image.count() / config.patches_per_soft_row();
}

/// Whether the tower can take it: a grid of whole soft rows inside the position table, with all its values.
inline bool fits(const VisionConfig& config, const ImagePatches& image) {
  const int side = config.kind == VisionKind::kTower ? config.pool_side : 1;
  return image.rows > 0 && image.columns > 0 && image.rows % side == 0 && image.columns % side == 0 &&
         image.rows <= config.positions && image.columns <= config.positions &&
         image.values.size() == static_cast<size_t>(image.rows) * static_cast<size_t>(image.columns) *
                                    static_cast<size_t>(config.patch_values());
}

}  // namespace slip::model
