// Attention of up to 16 rows over a cache, as a phase: a block of threads takes 16 queries (rows of a
// sequence times query heads of one kv head) and a block of keys at a time; keys and values pass through
// shared memory in tiles. Four groups of warps share the head's dimensions, the four warps of a group the
// keys: each multiplies its part of the queries, kept in registers, with its keys of a tile, the partial
// scores are added in the order of the groups; then each warp weights its part of the values. Queries and
// weights enter the tensor cores as pairs of bf16. Where the cache holds one vector n for K = V, scores are
// (q * k_norm) n for the dimensions that do not turn, and the turned ones are rebuilt per tile. Whoever
// finishes the last block of keys of a query merges them all, in the order of position. Bytes: every visible
// key and value once per 16 queries, all but the first time from the second-level cache.
#pragma once

#include "backend/cuda/kernels/heads.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

inline constexpr int kQueries = 16;
inline constexpr float kNothing = -INFINITY;

template <int kDim>
struct Tile {
  static constexpr int kKeys = kDim == 512 ? 32 : 64;
  static constexpr int kStride = kDim + 8;  // bf16 between keys: rows then start in other banks
  static constexpr int kSteps = kDim / 16;
  static constexpr int kSplit = kSteps < 4 ? kSteps : 4;  // groups of warps that share the dimensions
  static constexpr int kKeyWarps = 4;                     // of a group
  static constexpr int kStepsPerWarp = kSteps / kSplit;
  static constexpr int kOutTiles = (kDim / 8 + kWarps - 1) / kWarps;  // of 8 dimensions, per warp
  static constexpr int kScoreStride = kKeys + 4;
  static constexpr int kWeightStride = kKeys + 8;
};

struct AttendPlan {
  int keys = 0, values = 0, turned = 0, turned_queries = 0, scores = 0, weights = 0, rescale = 0;
  int queries = 0;         // floats, until they are in registers: where scores come later,
  bool in_values = false;  // or the first values
  int last = 0, end = 0;
};

__host__ __device__ constexpr int turned_dims(int pairs) {
  return (2 * pairs + 15) / 16 * 16;
}

template <int kDim>
__host__ __device__ AttendPlan attend_plan(int work, bool k_is_v, int pairs) {
  using T = Tile<kDim>;
  const int turned = k_is_v ? turned_dims(pairs) + 8 : 0;
  AttendPlan plan;
  plan.keys = work;
  plan.values = plan.keys + (k_is_v ? 0 : T::kKeys * T::kStride * 2);
  plan.turned = plan.values + T::kKeys * T::kStride * 2;
  plan.turned_queries = plan.turned + 2 * T::kKeys * turned * 2;
  plan.scores = plan.turned_queries + 2 * kQueries * turned * 2;
  const int score_bytes = T::kSplit * kQueries * T::kScoreStride * 4, query_bytes = kQueries * kDim * 4;
  plan.in_values = !k_is_v && query_bytes > score_bytes;
  plan.queries = plan.in_values ? plan.values : plan.scores;
  plan.weights = plan.scores + (k_is_v && query_bytes > score_bytes ? query_bytes : score_bytes);
  plan.rescale = plan.weights + 2 * kQueries * T::kWeightStride * 2;
  plan.last = plan.rescale + kQueries * 4;
  plan.end = plan.last + 16;
  return plan;
}

/// A block's work at a time.
struct Unit {
  int group, kv_head, block, blocks, first_query, queries;
};

__device__ inline bool find_unit(const AttendJob& job, const Step& step, int index, Unit& unit) {
  const int kv_heads = job.own.cache.kv_heads, share = job.own.heads / kv_heads, kind = job.sliding ? 0 : 1;
  for (int g = 0; g < step.groups; ++g) {
    const RowGroup& rows = step.group[g];
    const int queries = rows.count * share, tiles = (queries + kQueries - 1) / kQueries;
    const int first = KeyBlocks::of(job.sliding, rows.first_key[kind]);
    const int last = KeyBlocks::of(job.sliding, rows.end_key[kind] - 1);
    const int count = (last - first + 1) * kv_heads * tiles;
    if (index < count) {
      unit.group = g;
      const int rest = index / tiles, block = rest / kv_heads;
      unit.first_query = (index - rest * tiles) * kQueries;
      unit.queries = min(kQueries, queries - unit.first_query);
      unit.kv_head = rest - block * kv_heads;
      unit.block = first + block;
      unit.blocks = last - first + 1;
      return true;
    }
    index -= count;
  }
  return false;
}

/// Keys (or values) [start, start + kKeys) from the cache as far as they lie in [first, end); those from
/// `fresh` on are made by make_fresh(), and all others are zero.
template <int kDim>
__device__ __forceinline__ void fetch_tile(const HeadsJob& job, const RowGroup& rows, int kv_head, int part,
                                           int start, int first, int fresh, int end, std::byte* to) {
  using T = Tile<kDim>;
  constexpr int kPieces = kDim / 8;  // of 16 bytes
  const std::byte* from = cache_slot(job.cache, rows, job.step, part, kv_head, start);
#pragma unroll 1
  for (int i = thread_here(); i < T::kKeys * kPieces; i += kBlockThreads) {
    const int key = start + i / kPieces, piece = i % kPieces;
    std::byte* place = to + ((key - start) * T::kStride + piece * 8) * 2;
    if (key >= first && key < min(fresh, end)) {
      copy_async(place, from + (static_cast<int64_t>(key - start) * kDim + piece * 8) * 2);
    } else if (key < first || key >= end) {
      *reinterpret_cast<uint4*>(place) = make_uint4(0, 0, 0, 0);
    }
  }
}

/// The step's own keys and values in this tile, one row a warp; `stores`: also to the cache.
template <int kDim>
__device__ __forceinline__ void make_fresh(const HeadsJob& job, const Step& step, const RowGroup& rows,
                                           int kv_head, int start, int end, bool stores, uint16_t* keys,
                                           uint16_t* values) {
  using T = Tile<kDim>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp >= rows.count) return;
  const int row = rows.first + warp, position = step.row[row].position;
  if (position < start || position >= min(start + T::kKeys, end)) return;
#pragma unroll 1
  for (int part = 0; part < (job.cache.k_is_v ? 1 : 2); ++part) {
    const auto head = new_head<pairs_of(kDim)>(job, row, position, kv_head, part, lane);
    auto* to = reinterpret_cast<std::byte*>((part == 0 ? keys : values) + (position - start) * T::kStride);
    store_head(head, job.cache, to, kDim / 2, lane);
    if (stores)
      store_head(head, job.cache, cache_slot(job.cache, rows, job.step, part, kv_head, position), kDim / 2,
                 lane);
  }
}

/// A query, as multiplied with what the cache holds. Where that is the n of K = V: weighted with the norm of
/// the keys, and its turned dimensions apart, in pairs of bf16.
template <int kDim>
__device__ __forceinline__ void store_query(const AttendJob& job, const Head<pairs_of(kDim)>& head, int lane,
                                            float* query, uint16_t* high, uint16_t* low) {
  constexpr int kHalf = kDim / 2;
  if (!job.own.cache.k_is_v) return store_floats(head, query, kHalf, lane);
  const int pairs = job.own.turns.pairs;
#pragma unroll
  for (int j = 0; j < pairs_of(kDim); ++j) {
    const int i = lane + 32 * j;
    if (i >= kHalf) continue;
    const bool turned = i < pairs;
    query[i] = turned ? 0 : head.a[j] * __ldg(job.k_norm + i);
    query[i + kHalf] = turned ? 0 : head.b[j] * __ldg(job.k_norm + i + kHalf);
    if (!turned) continue;
    const Split parts = split_bf16(head.a[j], head.b[j]);
    high[i] = static_cast<uint16_t>(parts.high);
    high[pairs + i] = static_cast<uint16_t>(parts.high >> 16);
    low[i] = static_cast<uint16_t>(parts.low);
    low[pairs + i] = static_cast<uint16_t>(parts.low >> 16);
  }
  const int padding = 2 * pairs + lane;  // fewer than 16
  if (padding < turned_dims(pairs)) high[padding] = low[padding] = 0;
}

/// The turned dimensions of the tile's keys, from the n they are made of.
template <int kDim>
__device__ __forceinline__ void turn_keys(const AttendJob& job, int start, const uint16_t* n, uint16_t* high,
                                          uint16_t* low) {
  using T = Tile<kDim>;
  const int pairs = job.own.turns.pairs, stride = turned_dims(pairs) + 8;
#pragma unroll 1
  for (int i = threadIdx.x; i < T::kKeys * pairs; i += kBlockThreads) {
    const int key = i / pairs, pair = i % pairs;
    const uint16_t* row = n + key * T::kStride;
    const float a = bf16_low(row[pair]) * __ldg(job.k_norm + pair);
    const float b = bf16_low(row[pair + kDim / 2]) * __ldg(job.k_norm + pair + kDim / 2);
    const Turn turn = turn_at(job.own.turns, start + key, pair);
    const Split split = split_bf16(a * turn.cosine - b * turn.sine, b * turn.cosine + a * turn.sine);
    high[key * stride + pair] = static_cast<uint16_t>(split.high);
    high[key * stride + pairs + pair] = static_cast<uint16_t>(split.high >> 16);
    low[key * stride + pair] = static_cast<uint16_t>(split.low);
    low[key * stride + pairs + pair] = static_cast<uint16_t>(split.low >> 16);
  }
}

__device__ __forceinline__ uint32_t two_at(const uint16_t* from) {
  return *reinterpret_cast<const uint32_t*>(from);
}
/// The 16-row operand at a step of 16 columns.
__device__ __forceinline__ void row_operand(const uint16_t* rows, int stride, int col, uint32_t (&a)[4]) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const uint16_t* at = rows + g * stride + col + 2 * t;
  a[0] = two_at(at);
  a[1] = two_at(at + 8 * stride);
  a[2] = two_at(at + 8);
  a[3] = two_at(at + 8 * stride + 8);
}

/// One row and head: its blocks of keys in the order of position, by one warp.
template <int kDim>
__device__ __forceinline__ void merge_blocks(const AttendJob& job, const Step& state, int row, int head) {
  const int lane = threadIdx.x % 32, kind = job.sliding ? 0 : 1;
  const StepRow& step = state.row[row];
  const int offset = KeyBlocks::of(job.sliding, state.group[step.group].first_key[kind]);
  const int first = KeyBlocks::of(job.sliding, step.first[kind]) - offset;
  const int count = KeyBlocks::of(job.sliding, step.end[kind] - 1) - offset - first + 1;
  const auto place = [&](int block) {
    return (static_cast<int64_t>(first + block) * kMaxRows + row) * job.own.heads + head;
  };
  const auto weights_of = [&](int block) {
    if (block >= count) return make_float2(kNothing, 0);
    return load_fresh(reinterpret_cast<const float2*>(job.weights + place(block) * 2));
  };
  float highest = kNothing;
#pragma unroll 1
  for (int block = lane; block < count; block += 32) highest = fmaxf(highest, weights_of(block).x);
  highest = warp_max(highest);
  constexpr int kFours = (kDim + 127) / 128;  // of a lane
  float4 values[kFours] = {};
  float sum = 0;
#pragma unroll 1
  for (int base = 0; base < count; base += 32) {
    const float2 mine = weights_of(base + lane);
    const float scale = expf(mine.x - highest);
    const int end = min(32, count - base);
#pragma unroll 4
    for (int j = 0; j < end; ++j) {
      const float weight = shuffle(scale, j);
      sum = fmaf(weight, shuffle(mine.y, j), sum);
      const float* from = job.partials + place(base + j) * kDim;
#pragma unroll
      for (int i = 0; i < kFours; ++i) {
        const int dim = 4 * (lane + 32 * i);
        if (dim >= kDim) continue;
        const float4 part = load_fresh(reinterpret_cast<const float4*>(from + dim));
        values[i] = make_float4(fmaf(weight, part.x, values[i].x), fmaf(weight, part.y, values[i].y),
                                fmaf(weight, part.z, values[i].z), fmaf(weight, part.w, values[i].w));
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    const int dim = 4 * (lane + 32 * i);
    if (dim >= kDim) continue;
    const float4& v = values[i];
    *reinterpret_cast<float4*>(job.out + row * job.out_stride + head * kDim + dim) =
        make_float4(v.x / sum, v.y / sum, v.z / sum, v.w / sum);
  }
}

template <int kDim>
__device__ __noinline__ void attend_heads(int job_place, int step_place, int work) {
  const AttendJob& attend_job = *shared_at<const AttendJob>(job_place);
  const Step& step = *shared_at<const Step>(step_place);
  const HeadsJob& job = attend_job.own;
  using T = Tile<kDim>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int share = job.heads / job.cache.kv_heads, kind = attend_job.sliding ? 0 : 1;
  const int pairs = job.turns.pairs, turned = turned_dims(pairs), turned_stride = turned + 8;
  const AttendPlan plan = attend_plan<kDim>(work, job.cache.k_is_v, pairs);
  const int split = warp / T::kKeyWarps, key_warp = warp % T::kKeyWarps;
  std::byte* shared = shared_memory();
  auto* keys = reinterpret_cast<uint16_t*>(shared + plan.keys);
  auto* values = reinterpret_cast<uint16_t*>(shared + plan.values);
  auto* turned_high = reinterpret_cast<uint16_t*>(shared + plan.turned);
  auto* turned_low = turned_high + T::kKeys * turned_stride;
  auto* query_high = reinterpret_cast<uint16_t*>(shared + plan.turned_queries);
  auto* query_low = query_high + kQueries * turned_stride;
  auto* scores = reinterpret_cast<float*>(shared + plan.scores);
  auto* weight_high = reinterpret_cast<uint16_t*>(shared + plan.weights);
  auto* weight_low = weight_high + kQueries * T::kWeightStride;
  auto* rescale = reinterpret_cast<float*>(shared + plan.rescale);

  Unit unit;
  for (int index = blockIdx.x; find_unit(attend_job, step, index, unit); index += gridDim.x) {
    const RowGroup& rows = step.group[unit.group];
    const int first_row = rows.first;
    const auto row_of = [&](int q) { return first_row + (unit.first_query + q) / share; };
    const auto head_of = [&](int q) { return unit.kv_head * share + (unit.first_query + q) % share; };
    const int first = max(rows.first_key[kind], KeyBlocks::start(attend_job.sliding, unit.block));
    const int end = min(rows.end_key[kind], KeyBlocks::start(attend_job.sliding, unit.block + 1));
    const int fresh = job.stores ? step.row[first_row].position : end;
    const auto fetch = [&](int first_part, int last_part, int start) {
#pragma unroll 1
      for (int part = first_part; part <= last_part; ++part)
        fetch_tile<kDim>(job, rows, unit.kv_head, part, start, first, fresh, end,
                         shared + (part == 0 ? plan.keys : plan.values));
      copy_commit();
    };
    const int last_part = job.cache.k_is_v ? 0 : 1;
    const int first_start = first / T::kKeys * T::kKeys;
    fetch(0, plan.in_values ? 0 : last_part, first_start);

    // Queries, one a warp; then this warp's dimensions of all of them to registers, turned ones to shared
    // memory.
    auto* queries = reinterpret_cast<float*>(shared + plan.queries);
    {
      Head<pairs_of(kDim)> head = {};
      if (warp < unit.queries) {
        const int row = row_of(warp);
        head = read_head<pairs_of(kDim)>(job.query + row * job.query_stride + head_of(warp) * kDim, kDim / 2,
                                         lane);
        norm_head(head, job.q_norm, kDim / 2, lane, job.epsilon);
        turn_head(head, job.turns, step.row[row].position, lane);
      }
      store_query<kDim>(attend_job, head, lane, queries + warp * kDim, query_high + warp * turned_stride,
                        query_low + warp * turned_stride);
    }
    __syncthreads();
    uint32_t q_high[T::kStepsPerWarp][4], q_low[T::kStepsPerWarp][4];
#pragma unroll
    for (int s = 0; s < T::kStepsPerWarp; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int dim = (split * T::kStepsPerWarp + s) * 16 + 2 * t + 8 * (i / 2);
        Split parts{0, 0};
        if (split < T::kSplit) {
          const float2 two = *reinterpret_cast<const float2*>(queries + (g + 8 * (i % 2)) * kDim + dim);
          parts = split_bf16(two.x, two.y);
        }
        q_high[s][i] = parts.high;
        q_low[s][i] = parts.low;
      }
    }
    if (job.cache.k_is_v) {
      // Padded dimensions of keys are never written by turn_keys().
      for (int i = threadIdx.x; i < T::kKeys * (turned - 2 * pairs); i += kBlockThreads) {
        const int key = i / (turned - 2 * pairs), dim = 2 * pairs + i % (turned - 2 * pairs);
        turned_high[key * turned_stride + dim] = turned_low[key * turned_stride + dim] = 0;
      }
    }
    if (plan.in_values) {
      __syncthreads();  // queries are in registers
      fetch(1, 1, first_start);
    }

    // This warp's query, and what it sees.
    float most = kNothing, total = 0;
    const StepRow& own_row = step.row[warp < unit.queries ? row_of(warp) : first_row];
    const int sees_first = own_row.first[kind];
    const int sees_end = warp < unit.queries ? own_row.end[kind] : 0;
    float out[T::kOutTiles][4] = {};

    for (int start = first_start; start < end; start += T::kKeys) {
      if (start > first_start) {
        __syncthreads();  // the tile before has been used
        fetch(0, last_part, start);
      }
      if (job.stores)
        make_fresh<kDim>(job, step, rows, unit.kv_head, start, end, unit.first_query == 0, keys, values);
      copy_wait<0>();
      __syncthreads();
      if (job.cache.k_is_v) {
        turn_keys<kDim>(attend_job, start, keys, turned_high, turned_low);
        __syncthreads();
      }

      if (split < T::kSplit) {
        for (int tile = key_warp; tile < T::kKeys / 8; tile += T::kKeyWarps) {
          float sums[4] = {};
          const uint16_t* key = keys + (tile * 8 + g) * T::kStride + 2 * t;
#pragma unroll
          for (int s = 0; s < T::kStepsPerWarp; ++s) {
            const uint16_t* at = key + (split * T::kStepsPerWarp + s) * 16;
            const uint32_t b0 = two_at(at), b1 = two_at(at + 8);
            mma(sums, q_high[s], b0, b1);
            mma(sums, q_low[s], b0, b1);
          }
          if (job.cache.k_is_v) {
#pragma unroll 1
            for (int s = split; s < turned / 16; s += T::kSplit) {
              uint32_t a_high[4], a_low[4];
              row_operand(query_high, turned_stride, s * 16, a_high);
              row_operand(query_low, turned_stride, s * 16, a_low);
              const int at = (tile * 8 + g) * turned_stride + s * 16 + 2 * t;
              const uint32_t b0 = two_at(turned_high + at), b1 = two_at(turned_high + at + 8);
              mma(sums, a_high, b0, b1);
              mma(sums, a_low, b0, b1);
              mma(sums, a_high, two_at(turned_low + at), two_at(turned_low + at + 8));
            }
          }
          float* to = scores + (split * kQueries + g) * T::kScoreStride + tile * 8 + 2 * t;
          to[0] = sums[0];
          to[1] = sums[1];
          to[8 * T::kScoreStride] = sums[2];
          to[8 * T::kScoreStride + 1] = sums[3];
        }
      }
      __syncthreads();

      {
        constexpr int kMine = T::kKeys / 32;
        float score[kMine];
        float highest = most;
#pragma unroll
        for (int j = 0; j < kMine; ++j) {
          const int key = lane + 32 * j;
          float sum = 0;
#pragma unroll
          for (int w = 0; w < T::kSplit; ++w) sum += scores[(w * kQueries + warp) * T::kScoreStride + key];
          const bool seen = start + key >= sees_first && start + key < sees_end;
          score[j] = seen ? sum : kNothing;
          highest = fmaxf(highest, score[j]);
        }
        highest = warp_max(highest);
        const float factor = highest == kNothing ? 1.0f : expf(most - highest);
        float sum = 0;
#pragma unroll
        for (int j = 0; j < kMine; ++j) {
          const float weight = score[j] == kNothing ? 0.0f : expf(score[j] - highest);
          const Split parts = split_bf16(weight, 0);
          weight_high[warp * T::kWeightStride + lane + 32 * j] = static_cast<uint16_t>(parts.high);
          weight_low[warp * T::kWeightStride + lane + 32 * j] = static_cast<uint16_t>(parts.low);
          sum += weight;
        }
        total = fmaf(total, factor, warp_sum(sum));
        most = highest;
        if (lane == 0) rescale[warp] = factor;
      }
      __syncthreads();

      const float factor0 = rescale[g], factor1 = rescale[g + 8];
#pragma unroll
      for (int i = 0; i < T::kOutTiles; ++i) {
        const int dims = (warp + kWarps * i) * 8;
        if (dims >= kDim) continue;
        out[i][0] *= factor0;
        out[i][1] *= factor0;
        out[i][2] *= factor1;
        out[i][3] *= factor1;
#pragma unroll
        for (int at = 0; at < T::kKeys / 16; at += 2) {
          uint32_t v[4], a[4];
          load_transposed(v, values + (at * 16 + lane) * T::kStride + dims);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            row_operand(weight_high, T::kWeightStride, (at + half) * 16, a);
            mma(out[i], a, v[2 * half], v[2 * half + 1]);
            row_operand(weight_low, T::kWeightStride, (at + half) * 16, a);
            mma(out[i], a, v[2 * half], v[2 * half + 1]);
          }
        }
      }
    }

    const int block = unit.block - KeyBlocks::of(attend_job.sliding, rows.first_key[kind]);
    const auto place = [&](int q) {
      return (static_cast<int64_t>(block) * kMaxRows + row_of(q)) * job.heads + head_of(q);
    };
#pragma unroll
    for (int i = 0; i < T::kOutTiles; ++i) {
      const int dims = (warp + kWarps * i) * 8 + 2 * t;
      if (dims >= kDim) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int q = g + 8 * half;
        if (q >= unit.queries) continue;
        float* to = attend_job.partials + place(q) * kDim + dims;
        to[0] = out[i][2 * half];
        to[1] = out[i][2 * half + 1];
      }
    }
    if (lane == 0 && warp < unit.queries) {
      float* to = attend_job.weights + place(warp) * 2;
      to[0] = most;
      to[1] = total;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t* finished = attend_job.finished + row_of(0) * job.heads + head_of(0);
      const bool is_last = count_finished(finished) + 1 == static_cast<uint32_t>(unit.blocks);
      if (is_last) *finished = 0;
      *shared_at<int>(plan.last) = is_last ? 1 : 0;
    }
    __syncthreads();
    if (*shared_at<const int>(plan.last) != 0 && warp < unit.queries)
      merge_blocks<kDim>(attend_job, step, row_of(warp), head_of(warp));
    __syncthreads();
  }
}

/// The job and the step lie in shared memory, at these places: as references they would be read like any
/// memory, and more slowly.
__device__ __forceinline__ void attend(int job, int step, int work) {
  switch (shared_at<const AttendJob>(job)->own.cache.head_dim) {
    case 16: return attend_heads<16>(job, step, work);
    case 32: return attend_heads<32>(job, step, work);
    case 64: return attend_heads<64>(job, step, work);
    case 128: return attend_heads<128>(job, step, work);
    case 256: return attend_heads<256>(job, step, work);
    default: return attend_heads<512>(job, step, work);
  }
}

}  // namespace slip::backend::cuda
