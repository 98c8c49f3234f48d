// How the attention of wide passes is dealt out to warps, and what lies where in shared memory. Two teams of
// warps have queries of their own; the warps of a team share the head's dimensions, first to score a tile of
// keys and then to weight its values. More warps bring keys and values and rebuild keys from K = V.
#pragma once

#include "backend/cuda/kernels/attend_merge.h"
#include "backend/cuda/kernels/wide_job.h"

namespace slip::backend::cuda {

/// `kOne`: one vector for K and V.
template <int kDim, bool kOne>
struct WideTileOf {
  using T = Tile<kDim>;
  static constexpr int kTeams = 2;
  static constexpr int kMembers = T::kSplit / T::kTogether;  // warps of a team
  static constexpr int kQueryTiles = kDim == 512 ? 1 : 2;    // of 16 queries, of a team: sums fill registers
  static constexpr int kTeamQueries = kQueryTiles * kQueries;
  static constexpr int kQueriesPerBlock = kTeams * kTeamQueries;
  static constexpr int kKeyTiles = T::kKeys / 8;
  static constexpr int kScoreStride = T::kKeys + 8;  // pairs of keys of four queries lie in different banks
  static constexpr int kOutTiles = kDim / 8 / kMembers;  // of 8 dimensions, of a warp
  // Threads.
  static constexpr int kTeamThreads = kMembers * 32, kWorkers = kTeams * kTeamThreads, kLoaders = 128;
  static constexpr int kThreads = kWorkers + kLoaders;
  // Tiles in shared memory: one that is used, one that is ready and, where there is room or keys have to be
  // rebuilt before they are ready, one on its way.
  static constexpr int kBuffers = kDim == 512 && !kOne ? 2 : 3;
  static constexpr int kBufferBytes = (kOne ? 1 : 2) * T::kBytes;  // keys, then values
  // Where K = V, turned dimensions are multiplied apart. Of large heads they fill the first steps of 16
  // dimensions of each half, which are left out.
  static constexpr int kPairs = AttendPlan<kDim, kOne>::kPairs;
  static constexpr int kLeftOut = kPairs / 16;
  static_assert(kPairs % 16 == 0);
  static constexpr int kStoredSteps = T::kSteps - 2 * kLeftOut;

  __host__ __device__ static constexpr bool is_left_out(int step) {
    if constexpr (kLeftOut > 0) return step % (T::kSteps / 2) < kLeftOut;
    return false;
  }
  /// Of a step that is not left out, its place among those.
  __host__ __device__ static constexpr int stored_step(int step) {
    return step - (step < T::kSteps / 2 ? kLeftOut : 2 * kLeftOut);
  }
};

/// Numbers of barriers. A tile is `ready` for a team, or `used` by both, by turns under two numbers.
struct WideBarriers {
  static constexpr int kLoaders = 9, kBegin = 10;
  __device__ static constexpr int ready(int team, int tile) { return 1 + 2 * team + tile % 2; }
  __device__ static constexpr int used(int tile) { return 5 + tile % 2; }
  __device__ static constexpr int team(int team) { return 7 + team; }
};

/// Of a query: what a tile's scores do to the sums before them.
struct alignas(16) RowFactors {
  float rescale;       // of the block of keys
  MergeWeights merge;  // where it ends
  float sum;           // of all weights, in the end
};

/// What a block of threads works on: its queries, and the keys that they see.
struct alignas(16) WideUnit {
  int group = 0, kv_head = 0, first = 0, count = 0;  // queries
  int share = 1;                                     // query heads of a kv head
  int first_row = 0;                                 // of the group
  int first_key = 0x7fffffff, end_key = 0;

  __device__ __forceinline__ int row_of(int query) const { return first_row + (first + query) / share; }
  __device__ __forceinline__ int head_of(int query) const {
    return kv_head * share + (first + query) % share;
  }
  /// The first tile of keys.
  __device__ __forceinline__ int start() const { return first_key / Tile<16>::kKeys * Tile<16>::kKeys; }
};

/// Places in shared memory.
struct WideAttendPlan {
  int queries = 0;         // [team][tile of 16][stored step][high, low][lane][4]
  int turned_queries = 0;  // the same of the turned dimensions
  int buffers = 0;         // [kBuffers][keys, values]
  int turned = 0;          // [2][high, low][key]
  int turning = 0;         // PageTurns, where threads have no four of pairs of their own
  int scores = 0;          // [team][member][query][kScoreStride]
  int weights = 0;         // [team][high, low][query][kWeightStride]
  int factors = 0;         // [team][query] RowFactors
  int unit = 0;            // WideUnit
  int end = 0;
};

template <int kDim, bool kOne>
__host__ __device__ constexpr WideAttendPlan wide_attend_plan(int pairs) {
  using W = WideTileOf<kDim, kOne>;
  using T = Tile<kDim>;
  WideAttendPlan plan;
  const int turned = kOne ? turned_dims(pairs) : 0, tiles = W::kTeams * W::kQueryTiles;
  plan.turned_queries = plan.queries + tiles * W::kStoredSteps * 1024;
  plan.buffers = plan.turned_queries + tiles * (turned / 16) * 1024;
  plan.turned = plan.buffers + W::kBuffers * W::kBufferBytes;
  plan.turning = plan.turned + (kOne ? 2 * 2 * T::kKeys * (turned + 8) * 2 : 0);
  plan.scores = plan.turning + (kOne && W::kPairs == 0 ? PageTurns::bytes(pairs) : 0);
  plan.weights = plan.scores + W::kTeams * W::kMembers * W::kTeamQueries * W::kScoreStride * 4;
  plan.factors = plan.weights + W::kTeams * 2 * W::kTeamQueries * T::kWeightStride * 2;
  plan.unit = plan.factors + W::kTeams * W::kTeamQueries * int{sizeof(RowFactors)};
  plan.end = plan.unit + int{sizeof(WideUnit)};
  return plan;
}
/// A constant where the number of pairs is one.
template <int kDim, bool kOne>
__device__ __forceinline__ WideAttendPlan wide_attend_plan(const AttendJob& job) {
  using W = WideTileOf<kDim, kOne>;
  return wide_attend_plan<kDim, kOne>(W::kPairs > 0 ? W::kPairs : job.own.turns.pairs);
}

/// By all lanes of a warp.
__device__ inline void find_keys(const WideAttend& attend, WideUnit& unit) {
  const int kind = attend.job.sliding ? 0 : 1, lane = static_cast<int>(threadIdx.x) % 32;
  const int last = unit.row_of(unit.count - 1);
  for (int row = unit.row_of(0); row <= last; row += 32) {
    const StepRow& one = attend.rows.row[min(row + lane, last)];
    unit.first_key = min(unit.first_key, one.first[kind]);
    unit.end_key = max(unit.end_key, one.end[kind]);
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    unit.first_key = min(unit.first_key, shuffle_xor(unit.first_key, mask));
    unit.end_key = max(unit.end_key, shuffle_xor(unit.end_key, mask));
  }
}

/// By the first warp.
__device__ inline void find_unit(const WideAttend& attend, int index, int per_block, WideUnit& to) {
  const int kv_heads = attend.job.own.cache.kv_heads;
  WideUnit unit;
  unit.share = attend.job.own.heads / kv_heads;
  for (int g = 0; g < attend.rows.groups; ++g) {
    const int all = attend.rows.group[g].count * unit.share, tiles = (all + per_block - 1) / per_block;
    if (index < tiles * kv_heads) {
      // The last rows see the most keys: they come first.
      unit.group = g;
      unit.first = (tiles - 1 - index / kv_heads) * per_block;
      unit.count = min(per_block, all - unit.first);
      unit.kv_head = index % kv_heads;
      unit.first_row = attend.rows.group[g].first;
      find_keys(attend, unit);
      break;
    }
    index -= tiles * kv_heads;
  }
  if (threadIdx.x == 0) to = unit;
}

}  // namespace slip::backend::cuda
