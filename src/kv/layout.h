// Layout: where the cache of one sequence keeps what, as pure arithmetic over a Config.
//
// Every layer that owns KV stores it in pages of kPagePositions consecutive positions, aligned to absolute
// position, so a page is also the unit by which attention splits its keys. Inside a page: [part][kv
// head][position][head dim], part 0 = K, part 1 = V; layers with K = V have one part, the normalised vector
// both are made from. Full layers get a new page whenever one is full. Sliding layers reuse a fixed ring of
// pages that holds the window plus the rows of the widest step. Layers that share KV have nothing here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/config.h"

namespace slip::kv {

// 256: long enough that a page of the smallest model is 128 KiB of sequential reading per layer, short enough
// that a sequence wastes little and that two threads find several pages to share even in a window of 512.
inline constexpr int kPagePositions = 256;

// bf16 is what engines serve with. f32 exists to compare with references that keep full precision.
enum class Storage { kBf16, kF32 };
inline size_t bytes_of(Storage storage) {
  return storage == Storage::kBf16 ? 2 : 4;
}

struct LayerLayout {
  bool owned = false;
  bool ring = false;
  int parts = 0;  // 2, or 1 where K = V
  int kv_heads = 0;
  int head_dim = 0;
  size_t page_bytes = 0;   // of this layer alone
  size_t page_offset = 0;  // inside a ring page (sliding) or a global page (full)
};

class Layout {
 public:
  /// `max_step_rows`: the most rows of one sequence that a single step may bring.
  Layout(const model::Config& config, Storage storage, int max_step_rows);

  const std::vector<LayerLayout>& layers() const { return layers_; }
  Storage storage() const { return storage_; }
  int ring_pages() const { return ring_pages_; }
  int max_step_rows() const { return max_step_rows_; }
  /// All sliding layers' share of one ring page, all full layers' share of one global page.
  size_t ring_page_bytes() const { return ring_page_bytes_; }
  size_t global_page_bytes() const { return global_page_bytes_; }
  /// Bytes a sequence of `positions` occupies.
  size_t bytes_at(int64_t positions) const;
  /// Bytes attention reads for one row at `position`, shared layers counted as often as they read.
  size_t bytes_read_at(int64_t position) const;

 private:
  std::vector<LayerLayout> layers_;
  std::vector<int> sources_;  // per layer, the layer it reads
  int window_;
  Storage storage_;
  int max_step_rows_;
  int ring_pages_ = 0;
  size_t ring_page_bytes_ = 0;
  size_t global_page_bytes_ = 0;
};

}  // namespace slip::kv
