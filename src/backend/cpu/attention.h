// Attention over one page of keys for the query heads that share a kv head, and the merging of pages.
//
// A row's attention is: for every page it sees, in order of position, scores of all its visible keys in the
// page, their maximum, exponentials and weighted values (a Partial); then the partials folded one after the
// other. Which thread computes which page, and how many rows pass over a page together, changes nothing: each
// (query, key) dot product and each sum has an order of its own, and keys a row does not see are never
// touched.
//
// Bytes: K and V of a page are read once per block of rows and widened to float in tiles that
// stay in the first-level cache. Where K = V the page holds the normalised vector n; V is n and K =
// rotate(n * weight), rebuilt per tile: the query is turned back by the page's first position, so the tile
// needs only the angles of 0..255.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kv/layout.h"

namespace slip::backend::cpu {

// Keys are split at multiples of this, whatever pages they are stored in: the split decides in which order sums run,
// and so the bits. The room of the partials is why it is not shorter, work for every thread in a window why it is not
// longer.
inline constexpr int kKeySplit = 256;

/// Angles of the rotary embedding for rebuilding keys where K = V.
struct PageRope {
  const float* weight = nullptr;   // [head dim] k_norm
  const float* cosines = nullptr;  // [kKeySplit][pairs] of the position inside a page
  const float* sines = nullptr;
  const float* base_cosines = nullptr;  // [pairs] of the page's first position
  const float* base_sines = nullptr;
  int pairs = 0;
};

struct Page {
  const std::byte* keys = nullptr;    // [kKeySplit][head dim]
  const std::byte* values = nullptr;  // the same memory where K = V
  kv::Storage storage = kv::Storage::kBf16;
  int head_dim = 0;
  const PageRope* rope = nullptr;  // set where K = V
};

/// One batch row's part in a page: its queries and the keys it sees, as offsets [first, last) into the page.
struct PageRow {
  const float* queries = nullptr;  // [heads][head dim], the heads of one kv head
  int first = 0;
  int last = 0;
  float* partials = nullptr;  // [heads][partial_floats(head_dim)] to write
};

/// A partial is [largest score, sum of exponentials, 14 unused, weighted values...].
inline constexpr int kPartialHeader = 16;
inline constexpr int partial_floats(int head_dim) {
  return kPartialHeader + (head_dim + 15) / 16 * 16;
}

/// Floats of the tile that keys or values are widened into, 16 KiB to stay in a first-level cache, and how
/// many keys fit.
inline constexpr int kTileFloats = 8192;
inline constexpr int tile_keys(int head_dim) {
  const int keys = kTileFloats / head_dim;
  return keys < 4 ? 4 : keys > 32 ? 32 : keys;
}

/// Rows that may pass over a page together, times heads.
inline constexpr int kMaxPageQueries = 64;

/// Floats of scratch attend_page() needs.
size_t attend_scratch_floats(int head_dim);

/// rows * heads <= kMaxPageQueries.
void attend_page(const Page& page, const PageRow* rows, int row_count, int heads, float* scratch);

/// state = state merged with partial; both as described above.
void merge_partial(const float* partial, int head_dim, float* state);
/// out = weighted values / sum
void finish_partial(const float* state, int head_dim, float* out);

}  // namespace slip::backend::cpu
