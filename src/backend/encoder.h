// Encoder: turns what was seen or heard into soft rows (soft_rows.h). Loaded for one target by the target's own
// backend, as draft networks are (drafting.h), whose threads it uses.
//
// It runs in slices, so that whoever decodes beside it never waits for a whole tower: begin() takes an item,
// each run_slice() does a small, bounded part of the work, and the last one yields the rows. An item gives the
// same bits alone or among others. One item is at work at a time; cancel() drops it at any point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backend/soft_rows.h"

namespace slip::backend {

/// One picture (or frame) as its tower takes it: patches in reading order.
struct EncoderInput {
  std::span<const float> patches;           // [patches, patch floats]
  std::span<const int32_t> positions = {};  // [patches, 2]: column and row of each patch
  int patch_floats = 0;
  int columns = 0, rows = 0;  // of the grid of patches
  int soft_rows = 0;          // that come out
};

class Encoder {
 public:
  virtual ~Encoder() = default;
  /// Copies what it needs of the input. Throws Error(kUsage) for an input that the tower cannot take.
  virtual void begin(const EncoderInput& input) = 0;
  /// Does the next part of the work, at most `seconds` of it as far as that can be foreseen; null until all is
  /// done, then the rows. After that, begin() may be called again.
  virtual SoftRowsHandle run_slice(double seconds) = 0;
  virtual void cancel() = 0;
  /// How much of the item at work is done, 0 to 1.
  virtual double progress() const = 0;

  /// Most patches of one item.
  virtual int max_patches() const = 0;
  virtual size_t resident_bytes() const = 0;
};

}  // namespace slip::backend
