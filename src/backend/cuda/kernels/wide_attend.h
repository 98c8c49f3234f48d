// Attention of wide passes, with the bits of attend.h for every row. A block takes up to 64 queries (rows of
// a sequence times query heads of one kv head) over all keys they see, in tiles of 32: four warps bring keys
// (wide_attend_keys.h), and two teams of warps with queries of their own score a tile (wide_attend_scores.h)
// and weight its values (wide_attend_values.h). The second team begins later than the first, so that one
// multiplies while the other makes weights. Where a block of keys ends (KeyBlocks) it is merged with those
// before it, as the narrow kernel does; sums of scores run over parts of the dimensions and sums of weights
// over tiles of keys in its order. Bytes: every visible key and value once per block of queries, from the
// second-level cache; through shared memory, keys and values once per team and queries once per tile of keys.
#pragma once

#include "backend/cuda/kernels/waiting.h"
#include "backend/cuda/kernels/wide_attend_keys.h"
#include "backend/cuda/kernels/wide_attend_queries.h"
#include "backend/cuda/kernels/wide_attend_scores.h"
#include "backend/cuda/kernels/wide_attend_values.h"
#include "backend/cuda/kernels/wide_group.h"

namespace slip::backend::cuda {

template <int kDim, bool kOne>
class WideAttention {
 public:
  __device__ explicit WideAttention(const WideAttend& attend)
      : attend_(attend), unit_(*shared_at<WideUnit>(wide_attend_plan<kDim, kOne>(attend.job).unit)) {}

  __device__ __forceinline__ void run() const {
    if (threadIdx.x < 32) find_unit(attend_, static_cast<int>(blockIdx.x), W::kQueriesPerBlock, unit_);
    __syncthreads();
    WideQueries<kDim, kOne>(attend_, unit_).put();
    set_up_barriers();
    __syncthreads();
    if (static_cast<int>(threadIdx.x) >= W::kWorkers) {
      if constexpr (kMoves) leave_registers<kLoaderRegisters>();
      WideKeys<kDim, kOne>(attend_, unit_).run();
    } else {
      if constexpr (kMoves) take_registers<kWorkerRegisters>();
      work();
    }
  }

 private:
  using W = WideTileOf<kDim, kOne>;
  using T = Tile<kDim>;
  // Teams are warpgroups, which may have other numbers of registers than the block began with.
  static constexpr bool kMoves = W::kTeamThreads == 128;
  static constexpr int kWorkerRegisters = 224, kLoaderRegisters = 56;

  __device__ static void set_up_barriers() {
    for (int i = 0; i < 2; ++i) {
      for (int team = 0; team < W::kTeams; ++team)
        set_up_barrier(WideBarriers::ready(team, i), W::kTeamThreads + W::kLoaders);
      set_up_barrier(WideBarriers::used(i), W::kThreads);
      set_up_barrier(WideBarriers::team(i), W::kTeamThreads);
    }
    set_up_barrier(WideBarriers::kLoaders, W::kLoaders);
    set_up_barrier(WideBarriers::kBegin, W::kWorkers);
  }

  __device__ __forceinline__ void work() const {
    const int warp = static_cast<int>(threadIdx.x) / 32, team = warp / W::kMembers;
    // Where turned dimensions are left out some members multiply less: not those of one scheduler.
    const int member = (warp + team) % W::kMembers;
    const bool works = team * W::kTeamQueries < unit_.count, sliding = attend_.job.sliding;
    WideScores<kDim, kOne> scores(attend_, unit_, team, member);
    WideValues<kDim, kOne> values(attend_, team, member);
    const int end = unit_.end_key;
    int tile = 0, buffer = 0, start = unit_.start();
    int block_end = KeyBlocks::start(sliding, KeyBlocks::of(sliding, start) + 1);
    if (team > 0) sync_some(WideBarriers::kBegin, W::kWorkers);
#pragma unroll 1
    while (start < end) {
      const int next = start + T::kKeys;
      const bool more = next < end, ends = next >= block_end || !more;
      sync_some(WideBarriers::ready(team, tile), W::kTeamThreads + W::kLoaders);
      if (works) {
        scores.score(tile, buffer);
        sync_some(WideBarriers::team(team), W::kTeamThreads);
        if (tile == 0 && team == 0) arrive_some(WideBarriers::kBegin, W::kWorkers);
        scores.weigh(start, ends);
        sync_some(WideBarriers::team(team), W::kTeamThreads);
        values.add(buffer, ends);
      }
      if (more) arrive_some(WideBarriers::used(tile), W::kThreads);
      if (ends) block_end = KeyBlocks::start(sliding, KeyBlocks::of(sliding, next) + 1);
      start = next;
      ++tile;
      buffer = buffer + 1 < W::kBuffers ? buffer + 1 : 0;
    }
    if (!works) return;
    scores.put_sums();
    sync_some(WideBarriers::team(team), W::kTeamThreads);
    values.store(attend_.job, unit_);
  }

  const WideAttend& attend_;
  WideUnit& unit_;  // in shared memory: what is needed once must not take registers all the time
};

}  // namespace slip::backend::cuda
