// How attention is dealt out to blocks of threads: all keys of all queries in one line, tile after tile, cut
// into equal parts; a block of keys belongs to the part it starts in.
#pragma once

#include "backend/cuda/kernels/attend_tile.h"

namespace slip::backend::cuda {

/// Queries of a block of threads, and the keys it takes for them: whole blocks of keys, as far as anybody
/// sees them.
struct KeyShare {
  int group = 0, kv_head = 0, first_query = 0, queries = 0;
  int first = 0, end = 0;
  int block = 0;  // of keys, the first
};

class KeyShares {
 public:
  __device__ __forceinline__ KeyShares(const AttendJob& job, const Step& step, int heads)
      : step_(step),
        heads_(heads),
        kv_heads_(job.own.cache.kv_heads),
        kind_(job.sliding ? 0 : 1),
        sliding_(job.sliding) {}

  /// Calls `take` for every share of this block of threads.
  template <typename Take>
  __device__ __forceinline__ void for_each(const Take& take) const {
    int all = 0;
#pragma unroll 1
    for (int g = 0; g < step_.groups; ++g) all += length(g) * lines(g);
    const int blocks = static_cast<int>(gridDim.x), self = static_cast<int>(blockIdx.x);
    const int each = quotient(all, blocks), more = all - each * blocks;
    const int low = self * each + min(self, more), high = low + each + (self < more ? 1 : 0);
    if (low >= high) return;
#pragma unroll 1
    for (int g = 0, before = 0; g < step_.groups && before < high; ++g) {
      const int lines_here = lines(g), long_each = length(g);
      if (low < before + lines_here * long_each) of_group(g, low - before, high - before, take);
      before += lines_here * long_each;
    }
  }

 private:
  static constexpr int kTileKeys = Tile<16>::kKeys;

  /// Tiles of a group from the start of its first block of keys on.
  __device__ __forceinline__ int first_tile(int group) const {
    const int block = KeyBlocks::of(sliding_, step_.group[group].first_key[kind_]);
    return KeyBlocks::start(sliding_, block) / kTileKeys;
  }
  __device__ __forceinline__ int length(int group) const {
    return max(1, (step_.group[group].end_key[kind_] + kTileKeys - 1) / kTileKeys - first_tile(group));
  }
  __device__ __forceinline__ int lines(int group) const {
    return (step_.group[group].count * heads_ + kQueries - 1) / kQueries * kv_heads_;
  }
  /// The first block of keys that does not start before a tile.
  __device__ __forceinline__ int block_from(int tile) const {
    const int block = KeyBlocks::of(sliding_, tile * kTileKeys);
    return KeyBlocks::start(sliding_, block) < tile * kTileKeys ? block + 1 : block;
  }

  /// Tiles [low, high) of those of a group, of which some may not be there.
  template <typename Take>
  __device__ __forceinline__ void of_group(int group, int low, int high, const Take& take) const {
    const RowGroup& rows = step_.group[group];
    const int long_each = length(group), start = first_tile(group), lines_here = lines(group);
    int line = quotient(max(low, 0), long_each);
    const int query_tile = quotient(line, kv_heads_);
    KeyShare share;
    share.group = group;
    share.kv_head = line - query_tile * kv_heads_;
    share.first_query = query_tile * kQueries;
#pragma unroll 1
    for (int at = line * long_each; line < lines_here && at < high; ++line, at += long_each) {
      share.block = block_from(start + max(low - at, 0));
      const int end_block = block_from(start + min(high - at, long_each));
      if (share.block < end_block) {
        share.queries = min(kQueries, rows.count * heads_ - share.first_query);
        share.first = max(rows.first_key[kind_], KeyBlocks::start(sliding_, share.block));
        share.end = min(rows.end_key[kind_], KeyBlocks::start(sliding_, end_block));
        take(share);
      }
      if (++share.kv_head == kv_heads_) {
        share.kv_head = 0;
        share.first_query += kQueries;
      }
    }
  }

  const Step& step_;
  const int heads_, kv_heads_, kind_;
  const bool sliding_;
};

}  // namespace slip::backend::cuda
