// Attention of up to 16 rows over a cache, as two phases. First a block of threads takes up to 16 queries
// (rows of a sequence times query heads of one kv head) and some of the fixed blocks of keys
// (attend_share.h); keys and values pass through shared memory in tiles of 32. Warps make the queries, and
// the step's own keys and values, a head each, in the form the tensor cores take them (attend_inputs.h):
// queries in two parts of bf16. Then they multiply a tile with them (attend_products.h); or two tiles, half
// of the warps each, where up to eight queries see a window, which is so in steps of one row. Where the cache
// holds one vector n for K = V, scores are (q * k_norm) n for the dimensions that do not turn, and the turned
// ones are rebuilt per tile. Then, once all have met, the blocks of keys are merged (attend_merge.h). Few
// keys take the time not of the bytes but of the instructions that a warp has to issue one after another, so
// whatever is the same for all tiles is worked out once, addresses are steps from one another, and loads that
// do not depend on one another are issued together. One row's attention to many keys where K = V has a way of
// its own (attend_teams.h). Of many keys a tile of K = V takes some 400 instructions of 16 warps, about as
// long as its 32 KB from memory: one more spilled register or barrier in that loop is felt. Bytes: every
// visible key and value once per 16 queries, all but the first time from the second-level cache.
#pragma once

#include "backend/cuda/kernels/attend_products.h"
#include "backend/cuda/kernels/waiting.h"

namespace slip::backend::cuda {

template <int kDim, bool kOne>
class Attention : AttendProducts<kDim, kOne> {
 public:
  __device__ __forceinline__ explicit Attention(const AttendPhase& phase)
      : Products(phase), turned_log_(kOne ? log_of_fours(pairs()) : 0) {}

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
      if (share_.queries > 8) {
        take<2>();
      } else {
        take_eight();
      }
    }
    mark(7);
  }

 private:
  using Products = AttendProducts<kDim, kOne>;
  using typename Products::Inputs;
  template <int kEights, bool kApart = false>
  using Held = typename Products::template Held<kEights, kApart>;
  using Inputs::fresh_, Inputs::pairs;
  using Inputs::from_, Inputs::own_place, Inputs::page_from, Inputs::prefetch_rows;
  using Inputs::kNextOnItsWay, Inputs::kFirstTiles;
  using Inputs::phase_, Inputs::attend_, Inputs::job_, Inputs::step_, Inputs::plan_, Inputs::kind_,
      Inputs::share_;
  using Inputs::start_share, Inputs::make_heads, Inputs::fetch_first_values, Inputs::fetch,
      Inputs::fetch_part, Inputs::mark;
  using Inputs::work_, Inputs::keys, Inputs::values, Inputs::turned_stride;
  using Products::load_queries, Products::score, Products::score_turned, Products::put_scores,
      Products::weigh, Products::add_values, Products::put_block, Products::weights_;
  using typename Inputs::P;
  using typename Inputs::T;
  template <typename Type>
  __device__ __forceinline__ Type* at(int place) const {
    return Inputs::template at<Type>(place);
  }

  __device__ __forceinline__ int first_tile() const {
    return share_.first & -T::kKeys;
  }

  /// A share begins: what its first tile needs is made, or on its way.
  __device__ __forceinline__ void begin(bool meets) {
    const int first = first_tile();
    if (kOne) bring_page_turns(first);
    start_share(first);
    make_heads(first, meets);
    if constexpr (P::kTwoAtFirst) fetch_first_values(first);
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
      if (kFirstTiles == 2 && start == first) copy_wait<0>();
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

  /// Of up to eight queries.
  __device__ __forceinline__ void take_eight() {
    if constexpr (P::kTwoAtFirst) {
      if (attend_.sliding && share_.end - first_tile() > T::kKeys) return take_apart();
    }
    take<1>();
  }
  /// The same of up to eight queries in a window, where a block of keys is one tile: two tiles at a time, by
  /// half of the warps each, since a tile is a chain of steps whose time is waiting. Each half brings the
  /// next one for itself to where its last one was: keys once there are scores, values when they are used.
  __device__ __forceinline__ void take_apart() {
    static_assert(KeyBlocks::kShort == T::kKeys);
    constexpr int kThreads = kBlockThreads / 2, kStep = 2 * T::kKeys;
    const int thread = thread_here(), half = thread / kThreads, own = thread % kThreads, end = share_.end;
    int block = share_.block - share_.block_offset + half, start = first_tile() + half * T::kKeys;
    Held<1, true> held = {};
    copy_wait<1>();  // all but values
    __syncthreads();
    mark(2);
    load_queries(thread, held);
#pragma unroll 1
    while (true) {
      const bool here = start < end, more = start + kStep < end;
      if (here) {
        score(thread, half, held);
        put_scores(thread, held);
      }
      __syncthreads();
      mark(3);
      if (more) {
        from_ = page_from(start + kStep) + own_place(own, start + kStep);
        this->template fetch_tile<kThreads>(own, 0, start + kStep, keys(half));
        prefetch_rows(own, start + 2 * kStep);
      }
      copy_commit();
      if (here) this->template weigh<true>(thread, start);
      copy_wait<1>();  // all but these keys
      __syncthreads();
      mark(4);
      if (here) {
        add_values(thread, half, held);
        if (thread / 32 % (kWarps / 2) < share_.queries) weights_.add_up();
        mark(5);
        put_block(thread, block, held);
      }
      start += kStep;
      block += 2;
      if (start - half * T::kKeys >= end) break;
      __syncthreads();  // the values have been used
      if (more) this->template fetch_tile<kThreads>(own, 1, start, values(half));
      copy_commit();
      copy_wait<1>();
      __syncthreads();
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

  const int turned_log_;
};

}  // namespace slip::backend::cuda
