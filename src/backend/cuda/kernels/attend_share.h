// How attention is dealt out to blocks of threads: all keys of all queries in one line, tile after tile, cut
// into equal parts, at the nearest start of a block of keys. The first layer of its kind works it out and the
// others find it, because finding out takes as long as the attention to some keys.
#pragma once

#include "backend/cuda/kernels/attend_tile.h"

namespace slip::backend::cuda {

class ShareList {
 public:
  __device__ __forceinline__ ShareList(const AttendJob& job, const Step& step)
      : job_(job.own),
        step_(step),
        heads_(quotient(job.own.heads, job.own.cache.kv_heads)),
        kv_heads_(job.own.cache.kv_heads),
        kind_(job.sliding ? 0 : 1),
        team_keys_(job.teams ? job.team_keys : 0),
        sliding_(job.sliding) {}

  /// The shares of this block of threads from `first` on, as many as are kept.
  __device__ __forceinline__ void keep(KeyShares& shares, int first) const {
    shares.heads = heads_ * kv_heads_;
    shares.kv_heads = kv_heads_;
    shares.count = 0;
    shares.first = first;
    int all = 0;
    for (int g = 0; g < step_.groups; ++g) all += length(g) * lines(g);
    const int blocks = static_cast<int>(gridDim.x), self = static_cast<int>(blockIdx.x);
    const int each = quotient(all, blocks), more = all - each * blocks;
    int low = self * each + min(self, more), high = low + each + (self < more ? 1 : 0);
    if (each > 1) {
      low = without_rest(low);
      high = without_rest(high);
    }
    for (int g = 0, before = 0; g < step_.groups && before < high; ++g) {
      of_group(g, low - before, high - before, shares);
      before += length(g) * lines(g);
    }
    shares.teams = suit_teams(shares) ? 1 : 0;
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
  /// Where to cut a group's keys that would be cut before tile `at` of `tiles`: at the start of a block, of
  /// the two around it the nearer one. At the end of the keys, behind the last block.
  __device__ __forceinline__ int cut_at(int start, int at, int tiles) const {
    const int block = KeyBlocks::of(sliding_, (start + at) * kTileKeys);
    const int before = start + at - KeyBlocks::start(sliding_, block) / kTileKeys;
    const int end = KeyBlocks::start(sliding_, block + 1) / kTileKeys;
    const int after = min(end - start, tiles) - at;
    return before > after ? block + 1 : block;
  }

  /// Whether a line's last tile is the one at `place`, and not its only one.
  __device__ __forceinline__ static bool is_last(int place, int tiles) {
    return tiles > 1 && place - quotient(place, tiles) * tiles == tiles - 1;
  }
  /// A cut, moved behind the last tile of a line's keys where only that is left: to begin with other queries
  /// takes longer than one more tile of the same.
  __device__ __forceinline__ int without_rest(int cut) const {
    for (int g = 0, before = 0; g < step_.groups; ++g) {
      const int tiles = length(g), all = tiles * lines(g);
      if (cut < before + all) return is_last(cut - before, tiles) ? cut + 1 : cut;
      before += all;
    }
    return cut;
  }

  /// Tiles [low, high) of those of a group, of which some may not be there.
  __device__ __forceinline__ void of_group(int group, int low, int high, KeyShares& shares) const {
    const RowGroup& rows = step_.group[group];
    const int tiles = length(group), start = first_tile(group);
    for (int line = quotient(max(low, 0), tiles); line < lines(group) && line * tiles < high; ++line) {
      KeyShare share;
      share.block = cut_at(start, max(low - line * tiles, 0), tiles);
      const int end_block = cut_at(start, min(high - line * tiles, tiles), tiles);
      if (share.block >= end_block) continue;
      share.group = group;
      const int part = quotient(line, kv_heads_);
      share.kv_head = line - part * kv_heads_;
      share.first_query = part * kQueries;
      share.queries = min(kQueries, rows.count * heads_ - share.first_query);
      share.first = max(rows.first_key[kind_], KeyBlocks::start(sliding_, share.block));
      share.end = min(rows.end_key[kind_], KeyBlocks::start(sliding_, end_block));
      share.block_end = KeyBlocks::start(sliding_, share.block + 1);
      share.block_offset = KeyBlocks::of(sliding_, rows.first_key[kind_]);
      share.heads = heads_;
      share.page = cache_page(job_.cache, rows, job_.step, share.first / kCachePage);
      const int place = shares.count++ - shares.first;
      if (place >= 0 && place < KeyShares::kKept) shares.kept[place] = share;
    }
  }

  /// Whether there are enough keys for two teams, for up to eight queries each time.
  __device__ __forceinline__ bool suit_teams(const KeyShares& shares) const {
    if (team_keys_ == 0 || shares.count > KeyShares::kKept) return false;
    int keys = 0, most = 0;
    for (int i = 0; i < shares.count; ++i) {
      keys += shares.kept[i].end - shares.kept[i].first;
      most = max(most, shares.kept[i].queries);
    }
    return keys >= team_keys_ && most <= 8;
  }

  const HeadsJob& job_;
  const Step& step_;
  const int heads_, kv_heads_, kind_, team_keys_;
  const bool sliding_;
};

/// What an earlier layer like this one has worked out of the shares of this block of threads: nothing, more
/// than are kept, or all of them, which are for two teams of warps or not. The same for all lanes.
enum class ShareState : int { kUnknown, kMany, kTeams, kAll };
__device__ __forceinline__ ShareState share_state(const AttendPhase& phase) {
  const KeyShares& shares = phase.shares();
  const HeadsJob& job = phase.job().own;
  const bool known = shares.heads == job.heads && shares.kv_heads == job.cache.kv_heads && shares.first == 0;
  const ShareState state = !known                            ? ShareState::kUnknown
                           : shares.count > KeyShares::kKept ? ShareState::kMany
                           : shares.teams != 0               ? ShareState::kTeams
                                                             : ShareState::kAll;
  return static_cast<ShareState>(uniform(static_cast<int>(state)));
}
/// Works out the shares of this block of threads from `which` on, for all of them.
__device__ __noinline__ inline void keep_shares(AttendPhase phase, int which) {
  __syncthreads();  // those before have been read
  if (thread_here() == 0) ShareList(phase.job(), phase.step()).keep(phase.shares(), which);
  __syncthreads();
}

}  // namespace slip::backend::cuda
