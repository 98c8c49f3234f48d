#include "backend/cpu/rotary.h"

#include <cmath>
#include <cstring>

#include "kv/layout.h"

namespace slip::backend::cpu {

Rotary::Rotary(Carver& carver, const model::Config& config, model::LayerKind kind, int max_rows,
               int positions) {
  for (const auto& layer : config.layers) {
    if (layer.kind == kind) layer_ = &layer;
  }
  if (layer_ == nullptr) return;
  pairs_ = layer_->rotated_pairs;
  const auto pairs = static_cast<size_t>(pairs_);
  cosines_ = carver.allocate<float>(static_cast<size_t>(max_rows) * pairs);
  sines_ = carver.allocate<float>(static_cast<size_t>(max_rows) * pairs);
  if (!layer_->k_is_v) return;
  pages_ = positions / kKeySplit + 1;
  page_cosines_ = carver.allocate<float>(kKeySplit * pairs);
  page_sines_ = carver.allocate<float>(kKeySplit * pairs);
  base_cosines_ = carver.allocate<float>(static_cast<size_t>(pages_) * pairs);
  base_sines_ = carver.allocate<float>(static_cast<size_t>(pages_) * pairs);
}

void Rotary::fill_pages() const {
  for (int i = 0; pages_ > 0 && i < pairs_; ++i) {
    const double frequency = model::Config::rope_frequency(*layer_, i);
    for (int p = 0; p < kKeySplit; ++p) {
      page_cosines_[p * pairs_ + i] = static_cast<float>(std::cos(p * frequency));
      page_sines_[p * pairs_ + i] = static_cast<float>(std::sin(p * frequency));
    }
    for (int page = 0; page < pages_; ++page) {
      const double angle = -frequency * page * kKeySplit;
      base_cosines_[page * pairs_ + i] = static_cast<float>(std::cos(angle));
      base_sines_[page * pairs_ + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void Rotary::fill_row(int row, int position) const {
  for (int i = 0; i < pairs_; ++i) {
    const double angle = position * model::Config::rope_frequency(*layer_, i);
    cosines_[row * pairs_ + i] = static_cast<float>(std::cos(angle));
    sines_[row * pairs_ + i] = static_cast<float>(std::sin(angle));
  }
}

void Rotary::move_row(int from, int to) const {
  const auto bytes = static_cast<size_t>(pairs_) * sizeof(float);
  if (bytes == 0) return;
  std::memcpy(cosines_ + int64_t{to} * pairs_, cosines(from), bytes);
  std::memcpy(sines_ + int64_t{to} * pairs_, sines(from), bytes);
}

PageRope Rotary::page(int64_t page, const float* k_norm) const {
  return {.weight = k_norm,
          .cosines = page_cosines_,
          .sines = page_sines_,
          .base_cosines = base_cosines_ + page * pairs_,
          .base_sines = base_sines_ + page * pairs_,
          .pairs = pairs_};
}

}  // namespace slip::backend::cpu
