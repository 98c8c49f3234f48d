// Layout: where the cache of one sequence keeps what, as pure arithmetic over a Config.
//
// Every layer that owns KV stores it in pages of kPagePositions consecutive positions, aligned to absolute
// position. A page holds those positions of all full layers, or of all sliding layers: two kinds of page, and a
// table of each (kv/cache.h). Inside a page, per layer: [part][kv head][position][head dim], part 0 = K, part 1 = V;
// layers with K = V have one part, the normalised vector both are made from. Layers that share KV have nothing here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/config.h"

namespace slip::kv {

// 256: long enough that a page of the smallest model is 128 KiB of sequential reading per layer, short enough
// that a sequence wastes little and that two threads find several pages to share even in a window of 512.
// Attention splits its keys the same way today; where the two meet says so.
inline constexpr int kPagePositions = 256;

inline constexpr int64_t pages_for(int64_t positions) {
  return (positions + kPagePositions - 1) / kPagePositions;
}

// bf16 is what engines serve with. f32 exists to compare with references that keep full precision.
enum class Storage { kBf16, kF32 };
inline size_t bytes_of(Storage storage) {
  return storage == Storage::kBf16 ? 2 : 4;
}

struct LayerLayout {
  bool owned = false;
  bool sliding = false;
  int parts = 0;  // 2, or 1 where K = V
  int kv_heads = 0;
  int head_dim = 0;
  size_t page_bytes = 0;   // of this layer alone
  size_t page_offset = 0;  // inside a page of its kind
};

class Layout {
 public:
  /// `max_step_rows`: the most rows of one sequence that a single step may bring.
  Layout(const model::Config& config, Storage storage, int max_step_rows);

  const std::vector<LayerLayout>& layers() const { return layers_; }
  Storage storage() const { return storage_; }
  int max_step_rows() const { return max_step_rows_; }
  /// The most positions the model goes to.
  int max_positions() const { return max_positions_; }
  /// All layers of the kind together; 0 where none owns KV.
  size_t sliding_page_bytes() const { return sliding_page_bytes_; }
  size_t full_page_bytes() const { return full_page_bytes_; }

  /// A row of a sliding layer sees so many keys, itself included.
  int window() const { return window_; }
  /// The first position that a sequence of `length` must still hold in sliding layers. The next row sees keys from
  /// length - window + 1 on; an assistant drafts from the row before it and sees one more.
  int64_t first_kept(int64_t length) const { return length < kept_ ? 0 : length - kept_; }
  /// So many keys more, for an assistant that is told to see them (DraftOptions::extra_keys).
  void keep_extra(int keys) { kept_ = window_ + keys; }

  /// The most pages of sliding layers a sequence holds up to `positions`, with steps of so many rows.
  int64_t sliding_pages(int64_t positions, int step_rows) const;
  /// Bytes of the pages of a sequence of `positions`: while it is written token by token, and the most while its
  /// prompt is read.
  size_t bytes_at(int64_t positions) const { return bytes_while_reading(positions, 1); }
  size_t bytes_while_reading(int64_t positions, int step_rows) const;
  /// Bytes attention reads for one row at `position`, shared layers counted as often as they read.
  size_t bytes_read_at(int64_t position) const;

 private:
  std::vector<LayerLayout> layers_;
  std::vector<int> sources_;  // per layer, the layer it reads
  int window_, kept_;
  Storage storage_;
  int max_step_rows_, max_positions_;
  size_t sliding_page_bytes_ = 0;
  size_t full_page_bytes_ = 0;
};

}  // namespace slip::kv
