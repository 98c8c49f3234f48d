// ImageKv: keys and values of one layer for all patches of one image, in the panels that dot_rows() reads.
// Keys: 32 of them to a panel, so that one pass scores a query against 32. Values: 32 dimensions of a head to
// a panel (the last perhaps 16: a head of 72 is 32 + 32 + 16, 11 % of padding), keys one after the other.
//
// Elements are bf16 where the machine multiplies those, else floats. Memory is reserved for the largest image
// and only touched as far as the present one goes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/dot_rows.h"
#include "base/buffer.h"

namespace slip::backend::cpu {

class ImageKv {
 public:
  ImageKv() = default;
  ImageKv(Carver& carver, int heads, int head_dim, int max_patches, bool narrow);

  /// Begins an image of so many patches.
  void resize(int patches);
  /// Stores a patch: [heads * head dim] floats each.
  void put(int patch, const float* keys, const float* values) const;

  bool narrow() const { return narrow_; }
  int patches() const { return patches_; }
  int heads() const { return heads_; }
  int head_dim() const { return head_dim_; }
  int value_panels() const { return value_panels_; }

  /// Keys [first, first + count) of a head; `first` divides by 32. The last panel may go on with keys that
  /// mean nothing.
  DotPanels keys(int head, int first, int count) const;
  /// Values of these keys, one panel of dimensions; an odd key at the end has a zero beside it.
  DotPanels values(int head, int panel, int first, int count) const;

 private:
  int columns() const { return narrow_ ? 2 : 1; }  // that a step joins
  int lanes(int value_panel) const { return value_panel + 1 == value_panels_ ? last_lanes_ : 32; }
  std::byte* key_panel(int head, int panel) const;
  std::byte* value_panel(int head, int panel) const;

  int heads_ = 0, head_dim_ = 0, patches_ = 0;
  bool narrow_ = false;
  int value_panels_ = 0, last_lanes_ = 32;
  int64_t key_panels_ = 0;   // of a head
  int64_t value_steps_ = 0;  // of a panel of values
  std::byte* keys_ = nullptr;
  std::byte* values_ = nullptr;
};

}  // namespace slip::backend::cpu
