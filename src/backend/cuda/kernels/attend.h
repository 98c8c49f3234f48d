// Attention of up to 16 rows over a cache, as two phases. First a block of threads takes up to 16 queries
// (rows of a sequence times query heads of one kv head) and some of the fixed blocks of keys
// (attend_share.h); keys and values pass through shared memory in tiles of 32. Warps make the queries, and
// the step's own keys and values, a head each, in the form the tensor cores take them: queries in two parts
// of bf16. Then groups of warps share the head's dimensions: each multiplies 16 keys with its part of the
// queries, the partial scores are added in the order of the groups, a warp per query makes weights of them,
// and each warp weights 16 dimensions of the values. Keys and values are the operand of 16 rows, queries that
// of eight columns, so that up to eight cost half of what 16 do. Where the cache holds one vector n for K =
// V, scores are (q * k_norm) n for the dimensions that do not turn, and the turned ones are rebuilt per tile.
// Then, once all have met, the blocks of keys are merged (attend_merge.h). Few keys take the time not of the
// bytes but of the instructions that a warp has to issue one after another, so whatever is the same for all
// tiles is worked out once, addresses are steps from one another, and loads that do not depend on one another
// are issued together. One row's attention to many keys where K = V has a way of its own (attend_teams.h). Of
// many keys a tile of K = V takes some 400 instructions of 16 warps, about as long as its 32 KB from memory:
// one more spilled register or barrier in that loop is felt. Bytes: every visible key and value once per 16
// queries, all but the first time from the second-level cache.
#pragma once

#include "backend/cuda/kernels/attend_inputs.h"
#include "backend/cuda/kernels/attend_weights.h"
#include "backend/cuda/kernels/waiting.h"

namespace slip::backend::cuda {

template <int kDim, bool kOne>
class Attention : AttendInputs<kDim, kOne> {
 public:
  __device__ __forceinline__ explicit Attention(const AttendPhase& phase)
      : Inputs(phase), turned_log_(kOne ? log_of_fours(pairs()) : 0) {}

  /// The shares that are kept. Whatever the phases before have no part in is done, or on its way, before the
  /// blocks meet: shares, tiles of keys that are in the cache, norms and rotations. The cache is not what the
  /// phase before works on, which is a product or attention of another layer.
  __device__ __forceinline__ void run() {
    const KeyShares& shares = step_.shares[kind_];
    if (shares.count == 0) phase_.meet();
    const int count = min(shares.count - shares.first, KeyShares::kKept);
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      if (i > 0) __syncthreads();  // the tiles of the one before have been used
      share_ = load_words(&shares.kept[i]);
      begin(i == 0 && shares.first == 0);
      if (share_.queries <= 8) {
        take<1>();
      } else {
        take<2>();
      }
    }
    mark(7);
  }

 private:
  using Inputs = AttendInputs<kDim, kOne>;
  using Inputs::fresh_, Inputs::pairs;
  using Inputs::kNextOnItsWay, Inputs::kFirstTiles;
  using Inputs::phase_, Inputs::attend_, Inputs::job_, Inputs::step_, Inputs::plan_, Inputs::kind_,
      Inputs::share_;
  using Inputs::start_share, Inputs::make_heads, Inputs::fetch, Inputs::fetch_part, Inputs::mark;
  using Inputs::work_, Inputs::keys, Inputs::values, Inputs::turned_stride;
  using typename Inputs::P;
  using typename Inputs::T;
  template <typename Type>
  __device__ __forceinline__ Type* at(int place) const {
    return Inputs::template at<Type>(place);
  }

  /// What a thread holds of so many eights of queries.
  template <int kEights>
  struct Held {
    static constexpr int kOwn = T::kOwnQueries == 2 ? kEights : 1;  // eights that a warp scores
    uint32_t queries[kOwn][T::kStepsPerWarp][4];                    // high and low parts of 16 dimensions
    float scores[kOwn][4];                                          // of a tile
    float out[T::kOutTiles][kEights][4];                            // of a block of keys
  };

  __device__ __forceinline__ int first_tile() const {
    return share_.first & -T::kKeys;
  }

  /// A share begins: what its first tile needs is made, or on its way.
  __device__ __forceinline__ void begin(bool meets) {
    const int first = first_tile();
    if (kOne) bring_page_turns(first);
    start_share(first);
    make_heads(first, meets);
    fresh_ = share_.end;  // the others are in the cache
    mark(1);
  }

  /// One share from its first key to its last.
  template <int kEights>
  __device__ __forceinline__ void take() {
    constexpr bool kHoists = kEights == 1;  // there are registers for what all tiles have alike
    const int first = first_tile(), end = share_.end, own_thread = thread_here();
    int block = share_.block - share_.block_offset, block_end = share_.block_end;
    Held<kEights> held = {};
    [[maybe_unused]] KeyTurns<kDim, P::kPairs> turns;
    if (kOne) turns.load(job_.turns, pairs(), first, own_thread, turned_log_);
    int buffer = 0;
#pragma unroll 1
    for (int start = first; start < end; start += T::kKeys, buffer ^= 1) {
      const int next = start + T::kKeys, thread = kHoists ? own_thread : thread_here();
      const bool more = next < end;
      if (!kNextOnItsWay || (kFirstTiles == 2 && start == first)) {
        copy_wait<1>();
      } else {
        copy_wait<0>();
      }
      __syncthreads();
      mark(2);
      if (start == first) {
        load_queries(thread, held);
        if (kFirstTiles == 1 && (!kNextOnItsWay || more)) __syncthreads();  // something comes where they were
      }
      if (kNextOnItsWay && more && (kFirstTiles == 1 || start != first)) fetch(thread, next, buffer ^ 1);
      if (kOne) turn_keys(thread, turns, start, buffer);
      score(thread, buffer, held);
      if (kOne) {
        __syncthreads();
        score_turned(thread, held);
        __syncthreads();  // turned keys have been used
      }
      put_scores(thread, held);
      __syncthreads();
      mark(3);
      if (!kNextOnItsWay) fetch_part(thread, 0, next, buffer);
      if (kOne && more && next % kCachePage == 0) bring_base(next);
      weigh(thread, start);
      if (!kNextOnItsWay) copy_wait<1>();
      __syncthreads();
      mark(4);
      if (kOne && more) turns.load(job_.turns, pairs(), next, thread, turned_log_);
      add_values(thread, buffer, held);
      if (thread / 32 < share_.queries) weights_.add_up();
      if (next >= block_end || !more) {
        mark(5);
        put_block(thread, block++, held);
        block_end = KeyBlocks::start(attend_.sliding, KeyBlocks::of(attend_.sliding, next) + 1);
      }
      if (!kNextOnItsWay) {
        if (more) __syncthreads();  // the values have been used
        fetch_part(thread, 1, next, buffer);
      }
    }
    mark(6);
  }

  /// What turns keys and is the same for many: for all the norm, for those of a page its rotations. By the
  /// last warps, which have the least to do in steps of one row; as a group of copies where pairs are many.
  __device__ __forceinline__ PageTurns page_turns() const {
    return PageTurns(work_ + plan_.turning, pairs());
  }
  __device__ __forceinline__ void bring_page_turns(int start) const {
    const int index = kBlockThreads - 1 - thread_here();
    if (P::kPairs > 0 && index < pairs() / 2) {
      copy_async(page_turns().norms(index),
                 attend_.k_norm + (index < pairs() / 4 ? index * 4 : index * 4 - pairs() + kDim / 2));
    } else if (P::kPairs == 0 && index < pairs()) {
      page_turns().put_norm(index, __ldg(attend_.k_norm + index), __ldg(attend_.k_norm + index + kDim / 2));
    }
    bring_base(start);
  }
  __device__ __forceinline__ void bring_base(int start) const {
    const int index = kBlockThreads - 1 - thread_here();
    const auto* base = reinterpret_cast<const float2*>(job_.turns.base) + start / kCachePage * pairs();
    if (P::kPairs > 0) {
      if (index < pairs() / 2) copy_async(page_turns().bases(index), base + index * 2);
      copy_commit();
    } else if (index < pairs()) {
      page_turns().put_base(index, __ldg(base + index));
    }
  }

  /// How a warp scores: its part of the dimensions, 16 keys, and eight queries or, of large heads, all.
  __device__ __forceinline__ static int split_of(int warp) {
    return warp / 2 % T::kSplit;
  }
  __device__ __forceinline__ static int first_eight(int warp) {
    return T::kOwnQueries == 2 ? 0 : warp / (2 * T::kSplit);
  }
  __device__ __forceinline__ static int first_key(int warp) {
    return warp % 2 * 16;
  }

  template <int kEights>
  __device__ __forceinline__ void load_queries(int thread, Held<kEights>& held) const {
    const int warp = thread / 32, eight = first_eight(warp);
    if (eight >= kEights) return;
    const uint16_t* from = at<uint16_t>(P::kQueryPlace) + eight * 8 * T::kStride +
                           split_of(warp) * T::kStepsPerWarp * 16 +
                           split_place(thread % 32, T::kStride, kQueries * T::kStride);
#pragma unroll
    for (int e = 0; e < Held<kEights>::kOwn; ++e) {
#pragma unroll
      for (int s = 0; s < T::kStepsPerWarp; ++s)
        load_matrices(held.queries[e][s], from + e * 8 * T::kStride + s * 16);
    }
  }

  /// The turned dimensions of the tile's keys, from the n they are made of; `turns` are this thread's first.
  __device__ __forceinline__ void turn_keys(int thread, KeyTurns<kDim, P::kPairs>& turns, int start,
                                            int buffer) const {
    const int stride = turned_stride(), log = turned_log_;
    auto* high = at<uint16_t>(P::kTurned);
    const int low = T::kKeys * stride;
    [[maybe_unused]] const int padding = stride - 8 - 2 * pairs();
    turns.use(page_turns(), pairs(), thread, log, keys(buffer), high, low);
    if constexpr (P::kPairs == 0) {
#pragma unroll 1
      for (int i = thread + kBlockThreads; i < T::kKeys << log; i += kBlockThreads) {
        turns.load(job_.turns, pairs(), start, i, log);
        turns.use(page_turns(), pairs(), i, log, keys(buffer), high, low);
      }
      for (int i = thread; i < T::kKeys * padding; i += kBlockThreads) {
        const int to = i / padding * stride + 2 * pairs() + i % padding;
        high[to] = high[low + to] = 0;
      }
    }
  }

  /// Scores of this warp's keys with its dimensions.
  template <int kEights>
  __device__ __forceinline__ void score(int thread, int buffer, Held<kEights>& held) const {
    const int warp = thread / 32;
    if (first_eight(warp) >= kEights) return;
    const uint16_t* key = keys(buffer) + first_key(warp) * T::kStride +
                          split_of(warp) * T::kStepsPerWarp * 16 + rows_place(thread % 32, T::kStride);
    uint32_t a[T::kStepsPerWarp][4];
#pragma unroll
    for (int s = 0; s < T::kStepsPerWarp; ++s) load_matrices(a[s], key + s * 16);
#pragma unroll
    for (int e = 0; e < Held<kEights>::kOwn; ++e) {
#pragma unroll
      for (float& sum : held.scores[e]) sum = 0;
    }
#pragma unroll
    for (int s = 0; s < T::kStepsPerWarp; ++s) {
#pragma unroll
      for (int part = 0; part < 4; part += 2) {
#pragma unroll
        for (int e = 0; e < Held<kEights>::kOwn; ++e)
          mma(held.scores[e], a[s], held.queries[e][s][part], held.queries[e][s][part + 1]);
      }
    }
  }
  /// The same with turned dimensions, once those of all keys are there.
  template <int kEights>
  __device__ __forceinline__ void score_turned(int thread, Held<kEights>& held) const {
    const int warp = thread / 32, lane = thread % 32, eight = first_eight(warp), stride = turned_stride();
    if (eight >= kEights) return;
    const uint16_t* key = at<uint16_t>(P::kTurned) + first_key(warp) * stride + rows_place(lane, stride);
    const uint16_t* query = at<uint16_t>(plan_.turned_queries) + eight * 8 * stride +
                            split_place(lane, stride, kQueries * stride);
    const auto add = [&](int s) {
      uint32_t high[4], low[4], b[Held<kEights>::kOwn][4];
      load_matrices(high, key + s * 16);
      load_matrices(low, key + T::kKeys * stride + s * 16);
#pragma unroll
      for (int e = 0; e < Held<kEights>::kOwn; ++e) load_matrices(b[e], query + e * 8 * stride + s * 16);
#pragma unroll
      for (int e = 0; e < Held<kEights>::kOwn; ++e) {
        mma(held.scores[e], high, b[e][0], b[e][1]);
        mma(held.scores[e], high, b[e][2], b[e][3]);
        mma(held.scores[e], low, b[e][0], b[e][1]);
      }
    };
    if constexpr (turned_dims(P::kPairs) == T::kSplit * 16) {
      add(split_of(warp));
    } else {
#pragma unroll 1
      for (int s = split_of(warp); s < stride / 16; s += T::kSplit) add(s);
    }
  }
  template <int kEights>
  __device__ __forceinline__ void put_scores(int thread, const Held<kEights>& held) const {
    const int warp = thread / 32, lane = thread % 32, eight = first_eight(warp);
    if (eight >= kEights) return;
    float* to = at<float>(P::kScores) +
                ((split_of(warp) * kQueries + eight * 8) + lane % 4 * 2) * T::kScoreStride + first_key(warp) +
                lane / 4;
#pragma unroll
    for (int e = 0; e < Held<kEights>::kOwn; ++e, to += 8 * T::kScoreStride) {
      to[0] = held.scores[e][0];
      to[T::kScoreStride] = held.scores[e][1];
      to[8] = held.scores[e][2];
      to[T::kScoreStride + 8] = held.scores[e][3];
    }
  }

  /// The weights of a tile's keys for this warp's query.
  __device__ __forceinline__ void weigh(int thread, int start) {
    const int warp = thread / 32, lane = thread % 32;
    if (warp >= share_.queries) return;
    const float* scores = at<float>(P::kScores) + warp * T::kScoreStride + lane;
    const QuerySeen sees = load_words(at<const QuerySeen>(P::kSeen) + warp);
    float score = 0;
#pragma unroll
    for (int w = 0; w < T::kSplit; w += T::kTogether) {
      float some = scores[w * kQueries * T::kScoreStride];
      if (T::kTogether == 2) some += scores[(w + 1) * kQueries * T::kScoreStride];
      score += some;
    }
    const bool seen = start + lane >= sees.first && start + lane < sees.end;
    weights_.weigh(lane, score, seen, at<float>(P::kRescale) + warp,
                   at<uint16_t>(P::kWeights) + warp * T::kWeightStride + lane, kQueries * T::kWeightStride);
  }

  /// This warp's dimensions of the tile's values, weighted.
  template <int kEights>
  __device__ __forceinline__ void add_values(int thread, int buffer, Held<kEights>& held) const {
    const int warp = thread / 32, lane = thread % 32;
    if (kDim < kWarps * 16 && warp * 16 >= kDim) return;
    const uint16_t* value = values(buffer) + warp * 16 + columns_place(lane, T::kStride);
    const uint16_t* weight =
        at<uint16_t>(P::kWeights) + split_place(lane, T::kWeightStride, kQueries * T::kWeightStride);
    uint32_t a[2][T::kOutTiles][4];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int i = 0; i < T::kOutTiles; ++i)
        load_transposed(a[s][i], value + s * 16 * T::kStride + kWarps * 16 * i);
    }
    rescale(lane, held);
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        uint32_t b[4];
        load_matrices(b, weight + e * 8 * T::kWeightStride + s * 16);
#pragma unroll
        for (int i = 0; i < T::kOutTiles; ++i) mma(held.out[i][e], a[s][i], b[0], b[1]);
#pragma unroll
        for (int i = 0; i < T::kOutTiles; ++i) mma(held.out[i][e], a[s][i], b[2], b[3]);
      }
    }
  }
  /// What was there before, relative to the highest score that there is now.
  template <int kEights>
  __device__ __forceinline__ void rescale(int lane, Held<kEights>& held) const {
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
      const auto factor = *reinterpret_cast<const float2*>(at<float>(P::kRescale) + e * 8 + lane % 4 * 2);
#pragma unroll
      for (int i = 0; i < T::kOutTiles; ++i) {
        float(&to)[4] = held.out[i][e];
        to[0] *= factor.x;
        to[1] *= factor.y;
        to[2] *= factor.x;
        to[3] *= factor.y;
      }
    }
  }

  /// A block of keys ends, and the next one begins with nothing.
  template <int kEights>
  __device__ __forceinline__ void put_block(int thread, int block, Held<kEights>& held) {
    const int warp = thread / 32, lane = thread % 32;
    if (lane == 0 && warp < share_.queries)
      reinterpret_cast<float2*>(attend_.weights)[at<QuerySeen>(P::kSeen)[warp].place + block] =
          make_float2(weights_.most, weights_.total);
    weights_.begin();
    if (kDim < kWarps * 16 && warp * 16 >= kDim) return;
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int query = e * 8 + lane % 4 * 2 + c;
        if (query >= share_.queries) continue;
        float* to = attend_.partials +
                    static_cast<int64_t>(at<QuerySeen>(P::kSeen)[query].place + block) * kDim + warp * 16 +
                    lane / 4;
#pragma unroll
        for (int i = 0; i < T::kOutTiles; ++i) {
          to[kWarps * 16 * i] = held.out[i][e][c];
          to[kWarps * 16 * i + 8] = held.out[i][e][2 + c];
        }
      }
    }
#pragma unroll
    for (auto& tile : held.out) {
#pragma unroll
      for (auto& four : tile) {
#pragma unroll
        for (float& sum : four) sum = 0;
      }
    }
  }

  const int turned_log_;
  KeyWeights weights_;  // of this warp's query
};

}  // namespace slip::backend::cuda
