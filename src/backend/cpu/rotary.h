// Rotary: cosines and sines for one kind of layer. Per active row those of its position, so that heads are
// turned without a call to cos; and, where keys are rebuilt from K = V, those inside a page and of every
// page's first position (see attention.h). Angles are computed in double: positions reach 2^17 and more.
#pragma once

#include "backend/cpu/attention.h"
#include "base/buffer.h"
#include "model/config.h"

namespace slip::backend::cpu {

class Rotary {
 public:
  Rotary() = default;
  /// For the layers of `kind` in `config`; nothing when there are none. Positions are below `positions`.
  Rotary(Carver& carver, const model::Config& config, model::LayerKind kind, int max_rows, int positions);

  /// Once the memory is there.
  void fill_pages() const;
  void fill_row(int row, int position) const;
  void move_row(int from, int to) const;

  int pairs() const { return pairs_; }
  const float* cosines(int row) const { return cosines_ + int64_t{row} * pairs_; }
  const float* sines(int row) const { return sines_ + int64_t{row} * pairs_; }
  /// For rebuilding the keys of a page; `k_norm` is the weight of the layer that owns them.
  PageRope page(int64_t page, const float* k_norm) const;

 private:
  const model::LayerConfig* layer_ = nullptr;
  int pairs_ = 0;
  int pages_ = 0;             // 0 where keys are stored
  float* cosines_ = nullptr;  // [max_rows][pairs]
  float* sines_ = nullptr;
  float* page_cosines_ = nullptr;  // [kKeySplit][pairs]
  float* page_sines_ = nullptr;
  float* base_cosines_ = nullptr;  // [pages][pairs], turning back by the page's first position
  float* base_sines_ = nullptr;
};

}  // namespace slip::backend::cpu
