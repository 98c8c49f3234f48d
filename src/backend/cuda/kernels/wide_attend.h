// Attention of wide passes, with the bits of attend.h for every row. A block of eight warps takes up to 128
// queries (rows of a sequence times query heads of one kv head) over all keys they see, tile by tile through
// shared memory, the next tile on its way. `kShare` warps have 16 queries together: each scores its part of a
// tile's keys and then weights its part of the values' dimensions. Where a block of keys ends (KeyBlocks) it
// is merged with those before it, as the narrow kernel does. Sums of scores run over parts of the dimensions
// and sums of weights over tiles of keys in the narrow kernel's order. Bytes: every visible key and value
// once per block of queries, from the second-level cache.
#pragma once

#include "backend/cuda/kernels/attend.h"
#include "backend/cuda/kernels/wide_job.h"

namespace slip::backend::cuda {

__device__ __forceinline__ bool turns(const Turns& table, int half, int dim) {
  return dim < table.pairs || (dim >= half && dim < half + table.pairs);
}

/// Pairs of a query at two dimensions, as multiplied with what the cache holds.
template <int kDim>
__device__ __forceinline__ Split read_query(const AttendJob& job, const float* query, int dim) {
  float x = query[dim], y = query[dim + 1];
  if (job.own.cache.k_is_v) {
    x = turns(job.own.turns, kDim / 2, dim) ? 0 : x * __ldg(job.k_norm + dim);
    y = turns(job.own.turns, kDim / 2, dim + 1) ? 0 : y * __ldg(job.k_norm + dim + 1);
  }
  return split_bf16(x, y);
}

/// Turned dimension i of a head: its place in the head.
__device__ __forceinline__ int turned_place(const Turns& table, int half, int i) {
  return i < table.pairs ? i : half + i - table.pairs;
}

template <int kDim>
struct WideTileOf {
  using T = Tile<kDim>;
  static constexpr int kShare = kDim > 128 ? kDim / 128 : 1;  // warps of 16 queries
  static constexpr int kGroups = kWideThreads / 32 / kShare;  // of 16 queries
  static constexpr int kQueriesPerBlock = kGroups * kQueries;
  static constexpr int kLoaded = kDim <= 256 ? 64 : 32;  // keys at a time, of one or two tiles
  static constexpr int kTiles = kLoaded / T::kKeys;
  static constexpr int kKeyTiles = T::kKeys / 8;           // of a tile of keys
  static constexpr int kOwnKeyTiles = kKeyTiles / kShare;  // of a warp
  static constexpr int kOutTiles = kDim / 8 / kShare;      // of 8 dimensions, of a warp
  static constexpr int kLoadedBytes = kLoaded * T::kStride * 2;
  static constexpr int kScoreStride = T::kKeys + 8;
};

struct WideAttendPlan {
  int queries = 0;         // [group][step][high, low][lane][4]
  int turned_queries = 0;  // the same of the turned dimensions
  int keys = 0;            // [2]
  int values = 0;          // [2]; the keys where K = V
  int turned = 0;          // [high, low][key]
  int scores = 0;          // [tile][group][16][kScoreStride]
  int end = 0;
};

template <int kDim>
__host__ __device__ constexpr WideAttendPlan wide_attend_plan(bool k_is_v, int pairs) {
  using W = WideTileOf<kDim>;
  WideAttendPlan plan;
  const int turned = k_is_v ? turned_dims(pairs) : 0;
  plan.turned_queries = plan.queries + W::kGroups * W::T::kSteps * 1024;
  plan.keys = plan.turned_queries + W::kGroups * turned / 16 * 1024;
  plan.values = k_is_v ? plan.keys : plan.keys + 2 * W::kLoadedBytes;
  plan.turned = plan.values + 2 * W::kLoadedBytes;
  plan.scores = plan.turned + (k_is_v ? 2 * W::kLoaded * (turned + 8) * 2 : 0);
  plan.end = plan.scores + (W::kShare > 1 ? W::kTiles * W::kGroups * kQueries * W::kScoreStride * 4 : 0);
  return plan;
}

/// A block's queries.
struct WideQueries {
  int group = 0, kv_head = 0, first = 0, count = 0;
};

__device__ inline WideQueries find_queries(const WideAttend& attend, int index, int per_block) {
  const int kv_heads = attend.job.own.cache.kv_heads, share = attend.job.own.heads / kv_heads;
  WideQueries queries;
  for (int g = 0; g < attend.rows.groups; ++g) {
    const int all = attend.rows.group[g].count * share, tiles = (all + per_block - 1) / per_block;
    if (index < tiles * kv_heads) {
      // The last rows see the most keys: they come first.
      queries.group = g;
      queries.first = (tiles - 1 - index / kv_heads) * per_block;
      queries.count = min(per_block, all - queries.first);
      queries.kv_head = index % kv_heads;
      return queries;
    }
    index -= tiles * kv_heads;
  }
  return queries;
}

template <int kDim>
class WideAttention {
 public:
  __device__ explicit WideAttention(const WideAttend& attend)
      : attend_(attend),
        job_(attend.job),
        cache_(attend.job.own.cache),
        plan_(wide_attend_plan<kDim>(cache_.k_is_v, attend.job.own.turns.pairs)),
        queries_(find_queries(attend, static_cast<int>(blockIdx.x), W::kQueriesPerBlock)),
        rows_(attend.rows.group[queries_.group]),
        share_(attend.job.own.heads / cache_.kv_heads),
        kind_(attend.job.sliding ? 0 : 1),
        lane_(static_cast<int>(threadIdx.x) % 32),
        group_(static_cast<int>(threadIdx.x) / 32 / W::kShare),
        member_(static_cast<int>(threadIdx.x) / 32 % W::kShare) {}

  __device__ __forceinline__ void run() {
    find_keys();
    put_queries();
    const bool works = group_ * kQueries < queries_.count;
    const int first = first_ / W::kLoaded * W::kLoaded;
    walk(first, [&](int start, int buffer, int tile_of) {
      if (!works) return;
      weigh(start, buffer, tile_of);
      const bool last = start + T::kKeys >= end_;
      if (last || KeyBlocks::of(job_.sliding, start) != KeyBlocks::of(job_.sliding, start + T::kKeys))
        merge();
    });
    if (works) store();
  }

 private:
  using W = WideTileOf<kDim>;
  using T = Tile<kDim>;

  __device__ __forceinline__ int row_of(int q) const { return rows_.first + (queries_.first + q) / share_; }
  __device__ __forceinline__ int head_of(int q) const {
    return queries_.kv_head * share_ + (queries_.first + q) % share_;
  }
  __device__ __forceinline__ bool sees(int half, int key) const {
    return key >= sees_first_[half] && key < sees_end_[half];
  }

  /// What this lane's two queries see, and what all of the block's do.
  __device__ void find_keys() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int q = group_ * kQueries + lane_ / 4 + 8 * half;
      const bool inside = q < queries_.count;
      const StepRow& row = attend_.rows.row[row_of(inside ? q : 0)];
      sees_first_[half] = row.first[kind_];
      sees_end_[half] = inside ? row.end[kind_] : 0;
    }
    const int last = row_of(queries_.count - 1);
    for (int row = row_of(0); row <= last; row += 32) {
      const StepRow& one = attend_.rows.row[min(row + lane_, last)];
      first_ = min(first_, one.first[kind_]);
      end_ = max(end_, one.end[kind_]);
    }
    for (int mask = 16; mask > 0; mask /= 2) {
      first_ = min(first_, shuffle_xor(first_, mask));
      end_ = max(end_, shuffle_xor(end_, mask));
    }
  }

  /// Queries as row operands.
  __device__ void put_queries() {
    const int turned_steps = cache_.k_is_v ? turned_dims(job_.own.turns.pairs) / 16 : 0;
    const int steps = T::kSteps + turned_steps;
    for (int i = static_cast<int>(threadIdx.x); i < W::kGroups * steps * 32; i += kWideThreads) {
      const int lane = i % 32, step = i / 32 % steps, group = i / 32 / steps;
      uint32_t high[4], low[4];
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int q = group * kQueries + lane / 4 + 8 * (part % 2);
        Split split{0, 0};
        if (q < queries_.count) {
          const float* query = job_.own.query + row_of(q) * job_.own.query_stride + head_of(q) * kDim;
          const int dim = step % T::kSteps * 16 + 2 * (lane % 4) + 8 * (part / 2);
          split = step < T::kSteps ? read_query<kDim>(job_, query, dim)
                                   : read_turned(query, (step - T::kSteps) * 16 + dim % 16);
        }
        high[part] = split.high;
        low[part] = split.low;
      }
      const int at = step < T::kSteps
                         ? plan_.queries + (group * T::kSteps + step) * 1024
                         : plan_.turned_queries + (group * turned_steps + step - T::kSteps) * 1024;
      shared_at<uint4>(at)[lane] = make_uint4(high[0], high[1], high[2], high[3]);
      shared_at<uint4>(at)[32 + lane] = make_uint4(low[0], low[1], low[2], low[3]);
    }
  }
  __device__ Split read_turned(const float* query, int dim) const {
    const Turns& turns = job_.own.turns;
    const auto at = [&](int i) {
      return i < 2 * turns.pairs ? query[turned_place(turns, kDim / 2, i)] : 0.0f;
    };
    return split_bf16(at(dim), at(dim + 1));
  }

  /// Keys or values of a tile, zero where nobody sees them.
  __device__ __forceinline__ void fetch(int part, int start, int place) const {
    constexpr int kPieces = kDim / 8;  // of 16 bytes
    const std::byte* from = cache_slot(cache_, rows_, job_.own.step, part, queries_.kv_head, start);
    for (int i = static_cast<int>(threadIdx.x); i < W::kLoaded * kPieces; i += kWideThreads) {
      const int key = i / kPieces, piece = i % kPieces;
      auto* to = shared_at<std::byte>(place + (key * T::kStride + piece * 8) * 2);
      if (start + key >= first_ && start + key < end_) {
        copy_async(to, from + (static_cast<int64_t>(key) * kDim + piece * 8) * 2);
      } else {
        *reinterpret_cast<uint4*>(to) = make_uint4(0, 0, 0, 0);
      }
    }
  }
  __device__ __forceinline__ void bring(int start, int buffer) const {
    if (start < end_) {
      fetch(0, start, plan_.keys + buffer * W::kLoadedBytes);
      if (!cache_.k_is_v) fetch(1, start, plan_.values + buffer * W::kLoadedBytes);
    }
    copy_commit();
  }

  template <typename Use>
  __device__ __forceinline__ void walk(int first, const Use& use) {
    __syncthreads();  // the queries are there
    bring(first, 0);
    int buffer = 0;
    for (int start = first; start < end_; start += W::kLoaded) {
      copy_wait<0>();
      __syncthreads();
      bring(start + W::kLoaded, buffer ^ 1);
      if (cache_.k_is_v) {
        turn(start, buffer);
        __syncthreads();
      }
#pragma unroll 1
      for (int tile = 0; tile < W::kTiles; ++tile) {
        const int at = start + tile * T::kKeys;
        if (at + T::kKeys > first_ && at < end_) use(at, buffer, tile);
      }
      buffer ^= 1;
    }
    copy_wait<0>();
  }

  /// See turn_keys(); padded dimensions are zero.
  __device__ void turn(int start, int buffer) const {
    const int pairs = job_.own.turns.pairs, dims = turned_dims(pairs), stride = dims + 8;
    const auto* keys = shared_at<const uint16_t>(plan_.keys + buffer * W::kLoadedBytes);
    auto* high = shared_at<uint16_t>(plan_.turned);
    auto* low = high + W::kLoaded * stride;
    const int span = dims - pairs;  // pairs, then what is padded
    for (int i = static_cast<int>(threadIdx.x); i < W::kLoaded * span; i += kWideThreads) {
      const int key = i / span, pair = i % span;
      if (pair >= pairs) {
        high[key * stride + pairs + pair] = low[key * stride + pairs + pair] = 0;
        continue;
      }
      const uint16_t* row = keys + key * T::kStride;
      float a = bf16_low(row[pair]) * __ldg(job_.k_norm + pair);
      float b = bf16_low(row[pair + kDim / 2]) * __ldg(job_.k_norm + pair + kDim / 2);
      turn_pair(a, b, turn_at(job_.own.turns, start + key, pair));
      const Split split = split_bf16(a, b);
      high[key * stride + pair] = static_cast<uint16_t>(split.high);
      high[key * stride + pairs + pair] = static_cast<uint16_t>(split.high >> 16);
      low[key * stride + pair] = static_cast<uint16_t>(split.low);
      low[key * stride + pairs + pair] = static_cast<uint16_t>(split.low >> 16);
    }
  }

  /// Scores of this warp's keys: quarters of the dimensions one after another, then added up.
  __device__ __forceinline__ void score(int buffer, int tile_of, float (&scores)[W::kOwnKeyTiles][4]) const {
    const int g = lane_ / 4, t = lane_ % 4;
    const int first_key = tile_of * T::kKeys + member_ * W::kOwnKeyTiles * 8 + g;
    const auto* keys =
        shared_at<const uint16_t>(plan_.keys + buffer * W::kLoadedBytes) + first_key * T::kStride + 2 * t;
    const int queries = plan_.queries + group_ * T::kSteps * 1024;
    const int turned_steps = cache_.k_is_v ? turned_dims(job_.own.turns.pairs) / 16 : 0;
#pragma unroll
    for (int tile = 0; tile < W::kOwnKeyTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[tile][i] = 0;
    }
#pragma unroll 1
    for (int split = 0; split < T::kSplit; ++split) {
      float sums[W::kOwnKeyTiles][4] = {};
#pragma unroll
      for (int s = 0; s < T::kStepsPerWarp; ++s) {
        const int step = split * T::kStepsPerWarp + s;
        uint32_t high[4], low[4];
        operand(queries + step * 1024, high, low);
#pragma unroll
        for (int tile = 0; tile < W::kOwnKeyTiles; ++tile) {
          const uint16_t* at = keys + tile * 8 * T::kStride + step * 16;
          const uint32_t b0 = two_at(at), b1 = two_at(at + 8);
          mma(sums[tile], high, b0, b1);
          mma(sums[tile], low, b0, b1);
        }
      }
      for (int step = split; step < turned_steps; step += T::kSplit)
        score_turned(step, turned_steps, first_key, sums);
#pragma unroll
      for (int tile = 0; tile < W::kOwnKeyTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[tile][i] += sums[tile][i];
      }
    }
  }
  __device__ __forceinline__ void operand(int place, uint32_t (&high)[4], uint32_t (&low)[4]) const {
    const uint4 one = shared_at<const uint4>(place)[lane_], two = shared_at<const uint4>(place)[32 + lane_];
    high[0] = one.x, high[1] = one.y, high[2] = one.z, high[3] = one.w;
    low[0] = two.x, low[1] = two.y, low[2] = two.z, low[3] = two.w;
  }
  __device__ __forceinline__ void score_turned(int step, int steps, int first_key,
                                               float (&sums)[W::kOwnKeyTiles][4]) const {
    const int stride = steps * 16 + 8;
    const auto* turned_high = shared_at<const uint16_t>(plan_.turned);
    const auto* turned_low = turned_high + W::kLoaded * stride;
    uint32_t high[4], low[4];
    operand(plan_.turned_queries + (group_ * steps + step) * 1024, high, low);
#pragma unroll
    for (int tile = 0; tile < W::kOwnKeyTiles; ++tile) {
      const int at = (first_key + tile * 8) * stride + step * 16 + 2 * (lane_ % 4);
      const uint32_t b0 = two_at(turned_high + at), b1 = two_at(turned_high + at + 8);
      mma(sums[tile], high, b0, b1);
      mma(sums[tile], low, b0, b1);
      mma(sums[tile], high, two_at(turned_low + at), two_at(turned_low + at + 8));
    }
  }

  /// Scores of all keys of the tile, those that are not seen as nothing.
  __device__ __forceinline__ void all_scores(int start, int buffer, int tile_of,
                                             float (&scores)[W::kKeyTiles][4]) {
    if constexpr (W::kShare == 1) {
      score(buffer, tile_of, scores);
    } else {
      float own[W::kOwnKeyTiles][4];
      score(buffer, tile_of, own);
      auto* rows = shared_at<float>(plan_.scores) +
                   (tile_of * W::kGroups + group_) * kQueries * W::kScoreStride +
                   lane_ / 4 * W::kScoreStride + 2 * (lane_ % 4);
#pragma unroll
      for (int tile = 0; tile < W::kOwnKeyTiles; ++tile) {
        float* at = rows + (member_ * W::kOwnKeyTiles + tile) * 8;
        *reinterpret_cast<float2*>(at) = make_float2(own[tile][0], own[tile][1]);
        *reinterpret_cast<float2*>(at + 8 * W::kScoreStride) = make_float2(own[tile][2], own[tile][3]);
      }
      sync_some(1 + group_, W::kShare * 32);
#pragma unroll
      for (int tile = 0; tile < W::kKeyTiles; ++tile) {
        const auto one = *reinterpret_cast<const float2*>(rows + tile * 8);
        const auto two = *reinterpret_cast<const float2*>(rows + tile * 8 + 8 * W::kScoreStride);
        scores[tile][0] = one.x;
        scores[tile][1] = one.y;
        scores[tile][2] = two.x;
        scores[tile][3] = two.y;
      }
    }
#pragma unroll
    for (int tile = 0; tile < W::kKeyTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (!sees(i / 2, start + tile * 8 + 2 * (lane_ % 4) + i % 2)) scores[tile][i] = kNothing;
      }
    }
  }

  /// Sum over a row's weights in the order of warp_sum() over lanes with a key each.
  __device__ __forceinline__ float sum_of_row(const float (&weights)[W::kKeyTiles][4], int half) const {
    float one[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float sums[W::kKeyTiles];
#pragma unroll
      for (int tile = 0; tile < W::kKeyTiles; ++tile) sums[tile] = weights[tile][2 * half + i];
#pragma unroll
      for (int span = W::kKeyTiles / 2; span > 0; span /= 2) {
#pragma unroll
        for (int tile = 0; tile < span; ++tile) sums[tile] += sums[tile + span];
      }
      one[i] = sums[0];
      one[i] += shuffle_xor(one[i], 2);
      one[i] += shuffle_xor(one[i], 1);
    }
    return one[0] + one[1];
  }

  /// A tile's weights, and this warp's dimensions of its values with them.
  __device__ __forceinline__ void weigh(int start, int buffer, int tile_of) {
    float scores[W::kKeyTiles][4];
    all_scores(start, buffer, tile_of, scores);
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = most_[half];
#pragma unroll
      for (int tile = 0; tile < W::kKeyTiles; ++tile)
        most = fmaxf(most, fmaxf(scores[tile][2 * half], scores[tile][2 * half + 1]));
      most = fmaxf(most, shuffle_xor(most, 1));
      most = fmaxf(most, shuffle_xor(most, 2));
      factor[half] = most == kNothing ? 1.0f : expf(most_[half] - most);
#pragma unroll
      for (int tile = 0; tile < W::kKeyTiles; ++tile) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i)
          scores[tile][i] = scores[tile][i] == kNothing ? 0.0f : expf(scores[tile][i] - most);
      }
      total_[half] = fmaf(total_[half], factor[half], sum_of_row(scores, half));
      most_[half] = most;
    }
    uint32_t high[W::kKeyTiles / 2][4], low[W::kKeyTiles / 2][4];
#pragma unroll
    for (int at = 0; at < W::kKeyTiles / 2; ++at) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* two = scores[2 * at + i / 2] + i % 2 * 2;
        const Split split = split_bf16(two[0], two[1]);
        high[at][i] = split.high;
        low[at][i] = split.low;
      }
    }
    const auto* values = shared_at<const uint16_t>(plan_.values + buffer * W::kLoadedBytes) +
                         (tile_of * T::kKeys + lane_) * T::kStride;
#pragma unroll
    for (int tile = 0; tile < W::kOutTiles; ++tile) {
      const int dims = (member_ * W::kOutTiles + tile) * 8;
      float(&out)[4] = out_[tile];
      if (!begins_) {
        out[0] *= factor[0];
        out[1] *= factor[0];
        out[2] *= factor[1];
        out[3] *= factor[1];
      }
#pragma unroll
      for (int at = 0; at < T::kKeys / 16; at += 2) {
        uint32_t v[4];
        load_transposed(v, values + at * 16 * T::kStride + dims);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          mma(out, high[at + half], v[2 * half], v[2 * half + 1]);
          mma(out, low[at + half], v[2 * half], v[2 * half + 1]);
        }
      }
    }
    begins_ = false;
  }

  /// A block of keys ends: see merge_blocks().
  __device__ __forceinline__ void merge() {
    MergeWeights weights[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float highest = fmaxf(highest_[half], most_[half]);
      weights[half] = merge_weights(highest_[half], most_[half], highest);
      sum_[half] = merged(sum_[half], total_[half], weights[half].stays, weights[half].joins);
      highest_[half] = highest;
      most_[half] = kNothing;
      total_[half] = 0;
    }
#pragma unroll
    for (int tile = 0; tile < W::kOutTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        merged_[tile][i] =
            merged(merged_[tile][i], out_[tile][i], weights[i / 2].stays, weights[i / 2].joins);
        out_[tile][i] = 0;
      }
    }
    begins_ = true;
  }

  __device__ void store() const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int q = group_ * kQueries + lane_ / 4 + 8 * half;
      if (q >= queries_.count) continue;
      float* to = job_.out + row_of(q) * job_.out_stride + head_of(q) * kDim + member_ * W::kOutTiles * 8 +
                  2 * (lane_ % 4);
#pragma unroll
      for (int tile = 0; tile < W::kOutTiles; ++tile)
        *reinterpret_cast<float2*>(to + tile * 8) =
            make_float2(merged_[tile][2 * half] / sum_[half], merged_[tile][2 * half + 1] / sum_[half]);
    }
  }

  const WideAttend& attend_;
  const AttendJob& job_;
  const CacheLayer& cache_;
  const WideAttendPlan plan_;
  const WideQueries queries_;
  const RowGroup& rows_;
  const int share_, kind_, lane_, group_, member_;
  int first_ = 0x7fffffff, end_ = 0;  // keys of the whole block
  int sees_first_[2] = {}, sees_end_[2] = {};
  bool begins_ = true;  // a block of keys
  float highest_[2] = {kNothing, kNothing};
  float most_[2] = {kNothing, kNothing}, total_[2] = {}, sum_[2] = {};
  float out_[W::kOutTiles][4] = {}, merged_[W::kOutTiles][4] = {};
};

}  // namespace slip::backend::cuda
