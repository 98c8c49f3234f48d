// Attention of up to 16 rows over a cache, as two phases. First a block of threads takes 16 queries (rows of
// a sequence times query heads of one kv head) and some of the fixed blocks of keys, so many that all have
// about the same number of keys; keys and values pass through shared memory in tiles, those of the next tile
// under way while this one is used. Four groups of warps (eight, of the largest heads) share the head's
// dimensions, the warps of a group the keys: each multiplies its part of the queries, kept in registers, with
// its keys of a tile, the partial scores are added in the order of the groups; then each warp weights its
// part of the values. Queries and weights enter the tensor cores as pairs of bf16. Where the cache holds one
// vector n for K = V, scores are (q * k_norm) n for the dimensions that do not turn, and the turned ones are
// rebuilt per tile. Then, once all have met, a warp merges the blocks of keys of 64 dimensions of a query, in
// the order of position. At few rows nothing here takes time but waiting for memory, so loads that do not
// depend on one another are issued together. Bytes: every visible key and value once per 16 queries, all but
// the first time from the second-level cache.
#pragma once

#include "backend/cuda/kernels/attend_merge.h"

namespace slip::backend::cuda {

/// A key or value of the step, by a warp, to a place in shared memory and to the cache. Apart, because few
/// tiles have any, and all would pay for its registers.
template <int kDim>
__device__ __noinline__ void fresh_head(int job_place, int step_place, int row, int kv_head, int part, int to,
                                        bool stores) {
  const HeadsJob& job = shared_at<const AttendJob>(job_place)->own;
  const Step& step = *shared_at<const Step>(step_place);
  const int lane = thread_here() % 32, position = step.row[row].position;
  const auto head = new_head<pairs_of(kDim)>(job, row, position, kv_head, part, lane);
  store_head(head, job.cache, shared_at<std::byte>(to), kDim / 2, lane);
  if (!stores) return;
  const RowGroup& rows = step.group[step.row[row].group];
  store_head(head, job.cache, cache_slot(job.cache, rows, job.step, part, kv_head, position), kDim / 2, lane);
}

/// Queries of a block of threads, and the keys it takes for them: whole blocks of keys, as far as anybody
/// sees them.
struct KeyShare {
  int group = 0, kv_head = 0, first_query = 0, queries = 0;
  int first = 0, end = 0;
};

/// `kOne`: one vector for K and V.
template <int kDim, bool kOne>
class Attention {
 public:
  __device__ __forceinline__ Attention(int job, int step, int work)
      : attend_(*shared_at<const AttendJob>(job)),
        job_(attend_.own),
        step_(*shared_at<const Step>(step)),
        job_place_(job),
        step_place_(step),
        plan_(attend_plan<kDim>(work, kOne, job_.turns.pairs)),
        kind_(attend_.sliding ? 0 : 1) {}

  /// All keys of all queries in one line, cut into equal parts; a block of keys belongs to the part it starts
  /// in.
  __device__ __forceinline__ void run() {
    mark(0);
    const int kv_heads = job_.cache.kv_heads, heads = job_.heads / kv_heads;
    int all = 0;
    for (int g = 0; g < step_.groups; ++g) all += span(g) * tiles(g, heads) * kv_heads;
    const int blocks = static_cast<int>(gridDim.x), self = static_cast<int>(blockIdx.x);
    const int each = all / blocks, more = all - each * blocks;
    const int low = self * each + min(self, more), high = low + each + (self < more ? 1 : 0);
    for (int g = 0, before = 0; g < step_.groups && before < high; ++g) {
      const RowGroup& rows = step_.group[g];
      const int length = span(g), lines = tiles(g, heads) * kv_heads;
      for (int line = max(low - before, 0) / length; line < lines && before + line * length < high; ++line) {
        const int at = before + line * length, start = rows.end_key[kind_] - length;
        const int block = block_from(start + max(low - at, 0));
        const int end_block = block_from(start + min(high - at, length));
        if (block >= end_block) continue;
        KeyShare share;
        share.group = g;
        share.kv_head = line % kv_heads;
        share.first_query = line / kv_heads * kQueries;
        share.queries = min(kQueries, rows.count * heads - share.first_query);
        share.first = max(rows.first_key[kind_], KeyBlocks::start(attend_.sliding, block));
        share.end = min(rows.end_key[kind_], KeyBlocks::start(attend_.sliding, end_block));
        take(share, heads);
      }
      before += length * lines;
    }
    mark(7);
  }

 private:
  using T = Tile<kDim>;

  /// Keys of a group from the start of its first block on.
  __device__ __forceinline__ int span(int group) const {
    const RowGroup& rows = step_.group[group];
    const int first = KeyBlocks::of(attend_.sliding, rows.first_key[kind_]);
    return max(1, rows.end_key[kind_] - KeyBlocks::start(attend_.sliding, first));
  }
  __device__ __forceinline__ int tiles(int group, int heads) const {
    return (step_.group[group].count * heads + kQueries - 1) / kQueries;
  }
  /// The first block of keys that does not start before `key`.
  __device__ __forceinline__ int block_from(int key) const {
    const int block = KeyBlocks::of(attend_.sliding, key);
    return KeyBlocks::start(attend_.sliding, block) < key ? block + 1 : block;
  }

  __device__ __forceinline__ const RowGroup& rows() const { return step_.group[share_.group]; }
  __device__ __forceinline__ uint16_t* keys(int buffer) const {
    return shared_at<uint16_t>(plan_.keys + (kOne ? buffer * T::kBytes : 0));
  }
  __device__ __forceinline__ uint16_t* values(int buffer) const {
    return kOne ? keys(buffer) : shared_at<uint16_t>(plan_.values);
  }
  __device__ __forceinline__ uint16_t* turned_keys() const { return shared_at<uint16_t>(plan_.turned); }
  __device__ __forceinline__ int turned_stride() const { return turned_dims(job_.turns.pairs) + 8; }

  __device__ __forceinline__ void mark(int which) const {
    if (attend_.clocks != nullptr && thread_here() == 0)
      attend_.clocks[static_cast<int>(blockIdx.x) * kAttendMarks + which] = clock_now();
  }

  /// One share from its first key to its last.
  __device__ __forceinline__ void take(const KeyShare& share, int heads) {
    const int thread = thread_here(), warp = thread / 32;
    share_ = share;
    const int query = share.first_query + warp;
    row_ = rows().first + (warp < share.queries ? query / heads : 0);
    head_ = share.kv_head * heads + query % heads;
    fresh_ = job_.stores ? step_.row[rows().first].position : share.end;
    const int first = share.first / T::kKeys * T::kKeys;
    page_ = page_of(first);
    fetch_keys(first, 0);
    if (!plan_.in_values) fetch_values(first);
    put_queries();
    __syncthreads();
    mark(1);
    uint32_t high[T::kStepsPerWarp][4], low[T::kStepsPerWarp][4];
    load_queries(high, low);
    if (plan_.in_values) {
      __syncthreads();  // queries are in registers
      fetch_values(first);
    }
    most_ = kNothing;
    total_ = 0;
    float out[T::kOutTiles][4] = {};
    int buffer = 0;
#pragma unroll 1
    for (int start = first; start < share.end; start += T::kKeys) {
      const int next = start + T::kKeys;
      KeyTurns turns;
      if (kOne) turns.load<kDim>(attend_, start, thread_here());
      if (job_.stores) make_fresh(start, buffer);
      copy_wait<1>();
      __syncthreads();
      mark(2);
      if (kOne) {
        fetch_keys(next, buffer ^ 1);
        turn_keys(turns, start, buffer);
        __syncthreads();
      }
      score(high, low, buffer);
      __syncthreads();
      mark(3);
      if (!kOne) fetch_keys(next, 0);
      weigh(start);
      copy_wait<1>();
      __syncthreads();
      mark(4);
      add_values(buffer, out);
      mark(5);
      const int block = KeyBlocks::of(attend_.sliding, start);
      if (next >= share.end || block != KeyBlocks::of(attend_.sliding, next)) put_block(block, heads, out);
      __syncthreads();  // the tile has been used
      mark(6);
      fetch_values(next);
      buffer ^= 1;
    }
  }

  /// The page of a position, from the layer's part of it on.
  __device__ __forceinline__ const std::byte* page_of(int position) const {
    const int page = position / kCachePage;
    const std::byte* base = job_.cache.ring
                                ? rows().ring + page % job_.cache.ring_pages * job_.cache.ring_page_bytes
                                : load_fresh(&job_.step->pages[rows().pages + page]);
    return base + job_.cache.page_offset;
  }

  /// Keys (or values) [start, start + kKeys) as far as they lie in the share; those from fresh_ on are made
  /// by make_fresh(), and all others are zero.
  __device__ __forceinline__ void fetch(int part, int start, uint16_t* to) const {
    constexpr int kPieces = kDim / 8, kAll = T::kKeys * kPieces;  // of 16 bytes
    const std::byte* from =
        page_ + ((part * job_.cache.kv_heads + share_.kv_head) * kCachePage + start % kCachePage) * kDim * 2;
    const int end = min(fresh_, share_.end);
#pragma unroll
    for (int j = 0; j < (kAll + kBlockThreads - 1) / kBlockThreads; ++j) {
      const int i = thread_here() + j * kBlockThreads, key = start + i / kPieces;
      if (kAll % kBlockThreads != 0 && i >= kAll) continue;
      uint16_t* place = to + (key - start) * T::kStride + i % kPieces * 8;
      if (key >= share_.first && key < end) {
        copy_async(place, from + i * 16);
      } else if (key < share_.first || key >= share_.end) {
        *reinterpret_cast<uint4*>(place) = make_uint4(0, 0, 0, 0);
      }
    }
  }
  /// Keys of a tile, then its values; each a group of copies, the last of them empty.
  __device__ __forceinline__ void fetch_keys(int start, int buffer) {
    if (start < share_.end) {
      if (start > share_.first) page_ = next_page_;
      fetch(0, start, keys(buffer));
    }
    copy_commit();
    // Known before it is needed.
    if (start + T::kKeys < share_.end) next_page_ = page_of(start + T::kKeys);
  }
  __device__ __forceinline__ void fetch_values(int start) {
    if (!kOne && start < share_.end) fetch(1, start, values(0));
    copy_commit();
  }

  /// The step's own keys and values in this tile, each by a warp, those without queries first.
  __device__ __forceinline__ void make_fresh(int start, int buffer) const {
    const int parts = kOne ? 1 : 2;
#pragma unroll 1
    for (int item = kWarps - 1 - thread_here() / 32; item < rows().count * parts; item += kWarps) {
      const int row = rows().first + item / parts, part = item % parts, position = step_.row[row].position;
      if (position < start || position >= min(start + T::kKeys, share_.end)) continue;
      const int tile = kOne ? plan_.keys + buffer * T::kBytes : part == 0 ? plan_.keys : plan_.values;
      fresh_head<kDim>(job_place_, step_place_, row, share_.kv_head, part,
                       tile + (position - start) * T::kStride * 2, share_.first_query == 0);
    }
  }

  /// Queries, one a warp: turned ones apart.
  __device__ __forceinline__ void put_queries() const {
    const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
    Head<pairs_of(kDim)> head = {};
    if (warp < share_.queries) {
      const float* from = job_.query + row_ * job_.query_stride + head_ * kDim;
      head = read_head<pairs_of(kDim)>(from, kDim / 2, lane);
      norm_and_turn(head, job_.q_norm, job_.turns, step_.row[row_].position, kDim / 2, lane, job_.epsilon);
    }
    auto* high = shared_at<uint16_t>(plan_.turned_queries) + warp * turned_stride();
    store_query<kDim>(attend_, head, lane, shared_at<float>(plan_.queries) + warp * kDim, high,
                      high + kQueries * turned_stride());
  }
  /// This warp's dimensions of all queries.
  __device__ __forceinline__ void load_queries(uint32_t (&high)[T::kStepsPerWarp][4],
                                               uint32_t (&low)[T::kStepsPerWarp][4]) const {
    const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
    // Warps without dimensions of their own read any.
    const int group = warp / T::kKeyWarps % T::kSplit;
    const float* from = shared_at<const float>(plan_.queries) + lane / 4 * kDim +
                        group * T::kStepsPerWarp * 16 + lane % 4 * 2;
#pragma unroll
    for (int s = 0; s < T::kStepsPerWarp; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const auto two = *reinterpret_cast<const float2*>(from + 8 * (i % 2) * kDim + s * 16 + 8 * (i / 2));
        const Split parts = split_bf16(two.x, two.y);
        high[s][i] = parts.high;
        low[s][i] = parts.low;
      }
    }
  }

  /// The turned dimensions of the tile's keys, from the n they are made of; `turns` are those of the first.
  __device__ __forceinline__ void turn_keys(KeyTurns& turns, int start, int buffer) const {
    const int pairs = job_.turns.pairs, stride = turned_stride(), padding = stride - 8 - 2 * pairs;
    uint16_t *high = turned_keys(), *low = high + T::kKeys * stride;
    turns.use<kDim>(attend_, thread_here(), keys(buffer), high, low);
    constexpr int kTurn = KeyTurns::kAtOnce * kBlockThreads;
#pragma unroll 1
    for (int i = thread_here() + kTurn; i < T::kKeys * pairs; i += kTurn) {
      turns.load<kDim>(attend_, start, i);
      turns.use<kDim>(attend_, i, keys(buffer), high, low);
    }
#pragma unroll 1
    for (int i = thread_here(); i < T::kKeys * padding; i += kBlockThreads) {
      const int at = i / padding * stride + 2 * pairs + i % padding;
      high[at] = low[at] = 0;
    }
  }

  /// Scores of this warp's keys with its dimensions.
  __device__ __forceinline__ void score(const uint32_t (&high)[T::kStepsPerWarp][4],
                                        const uint32_t (&low)[T::kStepsPerWarp][4], int buffer) const {
    const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
    const int group = warp / T::kKeyWarps, first = warp % T::kKeyWarps, g = lane / 4, t = lane % 4;
    float sums[T::kOwnTiles][4] = {};
    if (group < T::kSplit) {
      const uint16_t* key =
          keys(buffer) + (first * 8 + g) * T::kStride + group * T::kStepsPerWarp * 16 + 2 * t;
#pragma unroll
      for (int s = 0; s < T::kStepsPerWarp; ++s) {
        uint32_t b[T::kOwnTiles][2];
#pragma unroll
        for (int i = 0; i < T::kOwnTiles; ++i) {
          const uint16_t* at = key + i * T::kKeyWarps * 8 * T::kStride + s * 16;
          b[i][0] = two_at(at);
          b[i][1] = two_at(at + 8);
        }
#pragma unroll
        for (int i = 0; i < T::kOwnTiles; ++i) mma(sums[i], high[s], b[i][0], b[i][1]);
#pragma unroll
        for (int i = 0; i < T::kOwnTiles; ++i) mma(sums[i], low[s], b[i][0], b[i][1]);
      }
      if (kOne) score_turned(group, first * 8 + g, sums);
    }
    if (kOne) __syncthreads();  // turned keys have been used
    if (group >= T::kSplit) return;
    float* to = shared_at<float>(plan_.scores) + (group * kQueries + g) * T::kScoreStride + first * 8 + 2 * t;
#pragma unroll
    for (int i = 0; i < T::kOwnTiles; ++i) {
      float* at = to + i * T::kKeyWarps * 8;
      *reinterpret_cast<float2*>(at) = make_float2(sums[i][0], sums[i][1]);
      *reinterpret_cast<float2*>(at + 8 * T::kScoreStride) = make_float2(sums[i][2], sums[i][3]);
    }
  }
  __device__ __forceinline__ void score_turned(int group, int first_key,
                                               float (&sums)[T::kOwnTiles][4]) const {
    const int thread = thread_here(), lane = thread % 32;
    const int stride = turned_stride();
    const auto* queries = shared_at<const uint16_t>(plan_.turned_queries);
    const uint16_t *turned_high = turned_keys(), *turned_low = turned_high + T::kKeys * stride;
#pragma unroll 1
    for (int s = group; s < stride / 16; s += T::kSplit) {
      uint32_t high[4], low[4];
      row_operand(queries, stride, s * 16, high);
      row_operand(queries + kQueries * stride, stride, s * 16, low);
#pragma unroll
      for (int i = 0; i < T::kOwnTiles; ++i) {
        const int at = (first_key + i * T::kKeyWarps * 8) * stride + s * 16 + lane % 4 * 2;
        const uint32_t b0 = two_at(turned_high + at), b1 = two_at(turned_high + at + 8);
        mma(sums[i], high, b0, b1);
        mma(sums[i], low, b0, b1);
        mma(sums[i], high, two_at(turned_low + at), two_at(turned_low + at + 8));
      }
    }
  }

  /// The weights of a tile's keys for this warp's query.
  __device__ __forceinline__ void weigh(int start) {
    const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
    if (warp >= share_.queries) return;  // whose weights concern nobody
    constexpr int kMine = T::kKeys / 32;
    const StepRow& row = step_.row[row_];
    const int sees_first = row.first[kind_], sees_end = row.end[kind_];
    const float* scores = shared_at<const float>(plan_.scores) + warp * T::kScoreStride + lane;
    float score[kMine], highest = most_;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < T::kSplit; ++w) sum += scores[w * kQueries * T::kScoreStride + 32 * j];
      const int key = start + lane + 32 * j;
      score[j] = key >= sees_first && key < sees_end ? sum : kNothing;
      highest = fmaxf(highest, score[j]);
    }
    highest = warp_max(highest);
    const float factor = highest == kNothing ? 1.0f : expf(most_ - highest);
    auto* high = shared_at<uint16_t>(plan_.weights) + warp * T::kWeightStride + lane;
    uint16_t* low = high + kQueries * T::kWeightStride;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      const float weight = score[j] == kNothing ? 0.0f : expf(score[j] - highest);
      const Split parts = split_bf16(weight, 0);
      high[32 * j] = static_cast<uint16_t>(parts.high);
      low[32 * j] = static_cast<uint16_t>(parts.low);
      sum += weight;
    }
    total_ = fmaf(total_, factor, warp_sum(sum));
    most_ = highest;
    if (lane == 0) shared_at<float>(plan_.rescale)[warp] = factor;
  }

  /// This warp's dimensions of the tile's values, weighted.
  __device__ __forceinline__ void add_values(int buffer, float (&out)[T::kOutTiles][4]) const {
    const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
    const float* rescale = shared_at<const float>(plan_.rescale);
    const float factor0 = rescale[lane / 4], factor1 = rescale[lane / 4 + 8];
    const auto* high = shared_at<const uint16_t>(plan_.weights);
    const uint16_t* low = high + kQueries * T::kWeightStride;
    if (warp * 8 >= kDim) return;
#pragma unroll
    for (int i = 0; i < T::kOutTiles; ++i) {
      out[i][0] *= factor0;
      out[i][1] *= factor0;
      out[i][2] *= factor1;
      out[i][3] *= factor1;
    }
#pragma unroll
    for (int at = 0; at < T::kKeys / 16; at += 2) {
      uint32_t v[T::kOutTiles][4];
#pragma unroll
      for (int i = 0; i < T::kOutTiles; ++i)
        load_transposed(v[i], values(buffer) + (at * 16 + lane) * T::kStride + (warp + kWarps * i) * 8);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t a[2][4];
        row_operand(high, T::kWeightStride, (at + half) * 16, a[0]);
        row_operand(low, T::kWeightStride, (at + half) * 16, a[1]);
#pragma unroll
        for (int part = 0; part < 2; ++part) {
#pragma unroll
          for (int i = 0; i < T::kOutTiles; ++i) mma(out[i], a[part], v[i][2 * half], v[i][2 * half + 1]);
        }
      }
    }
  }

  /// A block of keys ends.
  __device__ __forceinline__ void put_block(int block, int heads, float (&out)[T::kOutTiles][4]) {
    const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
    block -= KeyBlocks::of(attend_.sliding, rows().first_key[kind_]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int q = lane / 4 + 8 * half, query = share_.first_query + q;
      if (q >= share_.queries || warp * 8 >= kDim) continue;
      const int64_t place =
          place_of(block, rows().first + query / heads, share_.kv_head * heads + query % heads);
      float* to = attend_.partials + place * kDim + warp * 8 + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < T::kOutTiles; ++i)
        *reinterpret_cast<float2*>(to + kWarps * 8 * i) = make_float2(out[i][2 * half], out[i][2 * half + 1]);
    }
    if (lane == 0 && warp < share_.queries)
      *reinterpret_cast<float2*>(attend_.weights + place_of(block, row_, head_) * 2) =
          make_float2(most_, total_);
    most_ = kNothing;
    total_ = 0;
#pragma unroll
    for (int i = 0; i < T::kOutTiles; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) out[i][j] = 0;
    }
  }
  __device__ __forceinline__ int64_t place_of(int block, int row, int head) const {
    return static_cast<int64_t>(block * kMaxRows + row) * job_.heads + head;
  }

  const AttendJob& attend_;
  const HeadsJob& job_;
  const Step& step_;
  const int job_place_, step_place_;
  const AttendPlan plan_;
  const int kind_;
  KeyShare share_;
  int row_ = 0, head_ = 0;  // of this warp's query
  int fresh_ = 0;           // keys from here on are made here
  const std::byte *page_ = nullptr, *next_page_ = nullptr;
  float most_ = kNothing, total_ = 0;  // of this warp's query in a block of keys
};

template <int kDim, bool kOne>
__device__ __noinline__ void attend_heads(int job, int step, int work) {
  Attention<kDim, kOne>(job, step, work).run();
}

template <int kDim>
__device__ __forceinline__ void attend_with(int job, int step, int work) {
  if (shared_at<const AttendJob>(job)->own.cache.k_is_v) return attend_heads<kDim, true>(job, step, work);
  attend_heads<kDim, false>(job, step, work);
}

/// The job and the step lie in shared memory, at these places: as references they would be read like any
/// memory, and more slowly.
__device__ __forceinline__ void attend(int job, int step, int work) {
  if (shared_at<const AttendJob>(job)->merges) return merge_attention(job, step);
  switch (shared_at<const AttendJob>(job)->own.cache.head_dim) {
    case 16: return attend_with<16>(job, step, work);
    case 32: return attend_with<32>(job, step, work);
    case 64: return attend_with<64>(job, step, work);
    case 128: return attend_with<128>(job, step, work);
    case 256: return attend_with<256>(job, step, work);
    default: return attend_with<512>(job, step, work);
  }
}

}  // namespace slip::backend::cuda
