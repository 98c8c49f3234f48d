// Scores and weights of wide attention, with the bits of attend.h: each warp of a team scores all keys of a
// tile with its parts of the dimensions, the sums are exchanged through shared memory and added in the order
// of the parts, and then each warp makes the weights of some of the queries: eight lanes a query, four keys
// a lane. Sums over keys take the order of warp_sum() over lanes with a key each.
#pragma once

#include "backend/cuda/kernels/wide_attend_plan.h"

namespace slip::backend::cuda {

template <int kDim, bool kOne>
class WideScores {
 public:
  __device__ __forceinline__ WideScores(const WideAttend& attend, const WideUnit& unit, int team, int member)
      : plan_(wide_attend_plan<kDim, kOne>(attend.job)),
        turned_steps_(!kOne           ? 0
                      : W::kPairs > 0 ? turned_dims(W::kPairs) / 16
                                      : turned_dims(attend.job.own.turns.pairs) / 16),
        lane_(static_cast<int>(threadIdx.x) % 32),
        team_(team),
        member_(member) {
    const int kind = attend.job.sliding ? 0 : 1;
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const int q = team_ * W::kTeamQueries + own_query(i);
      const bool inside = q < unit.count;
      const StepRow& row = attend.rows.row[unit.row_of(inside ? q : 0)];
      query_[i] = {.first = row.first[kind], .end = inside ? row.end[kind] : 0};
    }
  }

  /// Sums of this warp's dimensions, for all queries of the team and all keys of a tile.
  __device__ __forceinline__ void score(int tile, int buffer) const {
    float sums[T::kTogether][W::kQueryTiles][W::kKeyTiles][4] = {};
    const uint16_t* keys = shared_at<const uint16_t>(plan_.buffers + buffer * W::kBufferBytes) +
                           columns_place(lane_, T::kStride);
    const int first = member_ * T::kTogether * T::kStepsPerWarp;
    // Of large heads with K = V, a part is left out, and then it is the first of two.
    if (kLeavesOut && W::is_left_out(first)) {
      add_steps<1, T::kTogether>(sums, first, keys);
    } else {
      add_steps<0, T::kTogether>(sums, first, keys);
    }
    if (kOne) {
#pragma unroll
      for (int part = 0; part < T::kTogether; ++part)
        add_turned(sums[part], member_ * T::kTogether + part, tile);
    }
    put(sums);
  }

  /// The weights of this warp's queries for the tile of keys at `start`; `ends`: with it ends a block of
  /// keys.
  __device__ __forceinline__ void weigh(int start, bool ends) {
#pragma unroll
    for (int i = 0; i < kRounds; ++i) weigh(i, start, ends);
  }

  /// Once all blocks of keys have been merged.
  __device__ __forceinline__ void put_sums() const {
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      if (lane_ % 8 == 0) factors(i).sum = query_[i].sum;
    }
  }

 private:
  using W = WideTileOf<kDim, kOne>;
  using T = Tile<kDim>;
  static constexpr int kRounds = W::kTeamQueries / 4 / W::kMembers;  // of four queries

  /// A query whose weights this lane makes with seven others.
  struct Query {
    int first, end;                     // keys it sees
    float most = kNothing, total = 0;   // of a block of keys
    float highest = kNothing, sum = 0;  // of all that have been merged
  };

  __device__ __forceinline__ int own_query(int round) const {
    return (round * W::kMembers + member_) * 4 + lane_ / 8;
  }
  __device__ __forceinline__ RowFactors& factors(int round) const {
    return shared_at<RowFactors>(plan_.factors)[team_ * W::kTeamQueries + own_query(round)];
  }
  __device__ __forceinline__ float* scores_of(int member) const {
    return shared_at<float>(plan_.scores) +
           (team_ * W::kMembers + member) * W::kTeamQueries * W::kScoreStride;
  }

  /// The operands of 16 queries at 16 dimensions.
  __device__ __forceinline__ void load(int place, uint32_t (&high)[4], uint32_t (&low)[4]) const {
    const uint4 one = shared_at<const uint4>(place)[lane_], two = shared_at<const uint4>(place)[32 + lane_];
    high[0] = one.x, high[1] = one.y, high[2] = one.z, high[3] = one.w;
    low[0] = two.x, low[1] = two.y, low[2] = two.z, low[3] = two.w;
  }
  /// Those of 32 keys at 16 dimensions.
  __device__ __forceinline__ void load(const uint16_t* keys, int stride, uint32_t (&b)[2][4]) const {
    load_matrices(b[0], keys);
    load_matrices(b[1], keys + 16 * stride);
  }
  using Sums = float[W::kQueryTiles][W::kKeyTiles][4];
  __device__ __forceinline__ static void multiply(Sums& sums, const uint32_t (&a)[W::kQueryTiles][4],
                                                  const uint32_t (&b)[2][4]) {
#pragma unroll
    for (int q = 0; q < W::kQueryTiles; ++q) {
#pragma unroll
      for (int key = 0; key < W::kKeyTiles; ++key)
        mma(sums[q][key], a[q], b[key / 2][key % 2 * 2], b[key / 2][key % 2 * 2 + 1]);
    }
  }

  static constexpr bool kLeavesOut = W::kLeftOut == T::kStepsPerWarp && T::kTogether == 2;

  /// The dimensions of parts [kFrom, kEnd) of this warp, by turns, so that sums need not wait for themselves.
  template <int kFrom, int kEnd>
  __device__ __forceinline__ void add_steps(Sums (&sums)[T::kTogether], int first,
                                            const uint16_t* keys) const {
#pragma unroll
    for (int s = 0; s < T::kStepsPerWarp; ++s) {
      uint32_t high[kEnd][W::kQueryTiles][4], low[kEnd][W::kQueryTiles][4], b[kEnd][2][4];
      if (!kLeavesOut && W::is_left_out(first + s)) continue;
#pragma unroll
      for (int part = kFrom; part < kEnd; ++part) {
        const int step = first + part * T::kStepsPerWarp + s;
#pragma unroll
        for (int q = 0; q < W::kQueryTiles; ++q)
          load(plan_.queries + ((team_ * W::kQueryTiles + q) * W::kStoredSteps + W::stored_step(step)) * 1024,
               high[part][q], low[part][q]);
        load(keys + step * 16, T::kStride, b[part]);
      }
#pragma unroll
      for (int part = kFrom; part < kEnd; ++part) multiply(sums[part], high[part], b[part]);
#pragma unroll
      for (int part = kFrom; part < kEnd; ++part) multiply(sums[part], low[part], b[part]);
    }
  }
  /// Turned dimensions, of which steps of 16 are dealt out to the parts.
  __device__ __forceinline__ void add_turned(Sums& sums, int part, int tile) const {
    const int stride = turned_steps_ * 16 + 8, low_keys = T::kKeys * stride;
    const uint16_t* keys =
        shared_at<const uint16_t>(plan_.turned) + tile % 2 * 2 * low_keys + columns_place(lane_, stride);
    const auto add = [&](int step) {
      uint32_t high[W::kQueryTiles][4], low[W::kQueryTiles][4], b[2][4], b_low[2][4];
#pragma unroll
      for (int q = 0; q < W::kQueryTiles; ++q)
        load(plan_.turned_queries + ((team_ * W::kQueryTiles + q) * turned_steps_ + step) * 1024, high[q],
             low[q]);
      load(keys + step * 16, stride, b);
      load(keys + low_keys + step * 16, stride, b_low);
      multiply(sums, high, b);
      multiply(sums, low, b);
      multiply(sums, high, b_low);
    };
    if constexpr (turned_dims(W::kPairs) == T::kSplit * 16) {
      add(part);
    } else {
#pragma unroll 1
      for (int step = part; step < turned_steps_; step += T::kSplit) add(step);
    }
  }

  __device__ __forceinline__ void put(
      const float (&sums)[T::kTogether][W::kQueryTiles][W::kKeyTiles][4]) const {
    float* to = scores_of(member_) + lane_ / 4 * W::kScoreStride + 2 * (lane_ % 4);
#pragma unroll
    for (int q = 0; q < W::kQueryTiles; ++q) {
#pragma unroll
      for (int key = 0; key < W::kKeyTiles; ++key) {
        float all[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          all[i] = sums[0][q][key][i];
          if (T::kTogether == 2) all[i] += sums[T::kTogether - 1][q][key][i];
        }
#pragma unroll
        for (int half = 0; half < 2; ++half)
          *reinterpret_cast<float2*>(to + (q * kQueries + 8 * half) * W::kScoreStride + key * 8) =
              make_float2(all[2 * half], all[2 * half + 1]);
      }
    }
  }

  __device__ __forceinline__ void weigh(int round, int start, bool ends) {
    Query& query = query_[round];
    const int q = own_query(round), key = lane_ % 8 * 4;
    float x[4] = {};
#pragma unroll
    for (int member = 0; member < W::kMembers; ++member) {
      const float4 four = *reinterpret_cast<const float4*>(scores_of(member) + q * W::kScoreStride + key);
      x[0] += four.x;
      x[1] += four.y;
      x[2] += four.z;
      x[3] += four.w;
    }
    float highest = query.most;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int at = start + key + e;
      if (at < query.first || at >= query.end) x[e] = kNothing;
      highest = fmaxf(highest, x[e]);
    }
#pragma unroll
    for (int mask = 4; mask > 0; mask /= 2) highest = fmaxf(highest, shuffle_xor(highest, mask));
    const float base = exponent_base(highest), rescale = expf(query.most - base);
#pragma unroll
    for (float& one : x) one = expf(one - base);
    put_weights(q, key, x);
    query.total = fmaf(query.total, rescale, sum_of(x));
    query.most = highest;
    RowFactors& out = factors(round);
    if (lane_ % 8 == 0) out.rescale = rescale;
    if (ends) merge(query, out);
  }
  __device__ __forceinline__ void put_weights(int query, int key, const float (&x)[4]) const {
    const Split one = split_bf16(x[0], x[1]), two = split_bf16(x[2], x[3]);
    auto* to =
        shared_at<uint16_t>(plan_.weights) + (team_ * 2 * W::kTeamQueries + query) * T::kWeightStride + key;
    *reinterpret_cast<uint2*>(to) = {one.high, two.high};
    *reinterpret_cast<uint2*>(to + W::kTeamQueries * T::kWeightStride) = {one.low, two.low};
  }
  __device__ __forceinline__ static float sum_of(const float (&x)[4]) {
    float sums[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sums[e] = x[e];
#pragma unroll
      for (int mask = 4; mask > 0; mask /= 2) sums[e] += shuffle_xor(sums[e], mask);
    }
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
  }
  /// A block of keys ends: see merge_blocks().
  __device__ __forceinline__ void merge(Query& query, RowFactors& out) const {
    const float highest = fmaxf(query.highest, query.most);
    const MergeWeights weights = merge_weights(query.highest, query.most, highest);
    query.sum = merged(query.sum, query.total, weights.stays, weights.joins);
    query.highest = highest;
    query.most = kNothing;
    query.total = 0;
    if (lane_ % 8 == 0) out.merge = weights;
  }

  const WideAttendPlan plan_;
  const int turned_steps_, lane_, team_, member_;
  Query query_[kRounds];
};

}  // namespace slip::backend::cuda
