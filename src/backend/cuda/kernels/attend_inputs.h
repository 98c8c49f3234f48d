// What attention works on, brought to shared memory: tiles of keys and values from the cache, and, a head a
// warp, the queries and the step's own keys and values, in the form the tensor cores take them.
#pragma once

#include "backend/cuda/kernels/attend_share.h"
#include "backend/cuda/kernels/waiting.h"

namespace slip::backend::cuda {

/// `kOne`: one vector for K and V.
template <int kDim, bool kOne>
class AttendInputs {
 protected:
  using T = Tile<kDim>;
  using P = AttendPlan<kDim, kOne>;
  static constexpr int kHalf = kDim / 2, kFours = fours_of(kDim);
  static constexpr bool kNextOnItsWay = P::kBuffers == 2;
  static constexpr int kFirstTiles = P::kTwoAtFirst ? 2 : 1;  // that are fetched when a share begins
  // Groups of copies with which a share begins before the blocks meet: a tile, or the keys of two, or keys
  // and values; and rotations.
  static constexpr int kFirstGroups = (kNextOnItsWay ? 1 : 2) + (P::kPairs > 0 ? 1 : 0);

  __device__ __forceinline__ explicit AttendInputs(const AttendPhase& phase)
      : phase_(phase),
        attend_(phase.job()),
        job_(attend_.own),
        step_(phase.step()),
        plan_(attend_plan<kDim, kOne>(pairs())),
        work_(phase.work()),
        kind_(attend_.sliding ? 0 : 1),
        timed_(thread_here() == 0 && attend_.clocks != nullptr) {}

  __device__ __forceinline__ void mark(int which) const {
    if (timed_) attend_.clocks[static_cast<int>(blockIdx.x) * kAttendMarks + which] = clock_now();
  }
  template <typename Type>
  __device__ __forceinline__ Type* at(int place) const {
    return shared_at<Type>(work_ + place);
  }
  __device__ __forceinline__ const RowGroup& rows() const { return step_.group[share_.group]; }
  __device__ __forceinline__ uint16_t* keys(int buffer) const {
    return at<uint16_t>(kNextOnItsWay ? buffer * P::kTileBytes : 0);
  }
  __device__ __forceinline__ uint16_t* values(int buffer) const {
    return keys(buffer) + (kOne ? 0 : T::kBytes / 2);
  }
  __device__ __forceinline__ int pairs() const { return P::kPairs > 0 ? P::kPairs : job_.turns.pairs; }
  __device__ __forceinline__ int turned_stride() const { return turned_dims(pairs()) + 8; }

  /// A share begins: its first tile is on its way, or will be soon, and it is known what this warp's query
  /// is.
  __device__ __forceinline__ void start_share(int first) {
    fresh_ = job_.stores ? step_.row[rows().first].position : share_.end;
    from_ = first_page() + own_place(thread_here(), first);
    find_next_page(first);
    if (!P::kTwoAtFirst) fetch_first(first);
    find_query();
  }

  /// The query of this warp: its row and head, and what it sees. Warps without one take the last.
  __device__ __forceinline__ void find_query() {
    const int heads = share_.heads;
    const int warp = thread_here() / 32;
    const int query = share_.first_query + min(warp, share_.queries - 1), row = quotient(query, heads);
    row_ = rows().first + row;
    head_ = share_.kv_head * heads + query - row * heads;
    if (thread_here() % 32 == 0)
      at<QuerySeen>(P::kSeen)[warp] = {.first = step_.row[row_].first[kind_],
                                       .end = step_.row[row_].end[kind_],
                                       .place = (row_ * job_.heads + head_) * attend_.most_blocks,
                                       .unused = 0};
  }

  /// This layer's part of a page.
  __device__ __forceinline__ std::byte* page_from(int key) const {
    return cache_page(job_.cache, rows(), job_.step, key / kCachePage) + job_.cache.page_offset;
  }

  __device__ __forceinline__ std::byte* first_page() const {
    return const_cast<std::byte*>(share_.page) + job_.cache.page_offset;
  }
  /// The page after that of `start`, long before it is needed.
  __device__ __forceinline__ void find_next_page(int start) {
    const int next = (start & -kCachePage) + kCachePage;
    if (next < share_.end) page_ = page_from(next);
  }

  /// A key or value in its page.
  __device__ __forceinline__ int slot_of(int part, int key) const {
    return ((part * job_.cache.kv_heads + share_.kv_head) * kCachePage + (key & (kCachePage - 1))) * kDim * 2;
  }

  // How threads share the copying of a tile: so many pieces of 16 bytes of a key, so many keys at once.
  static constexpr int kPieces = kDim / 8;
  static constexpr int kAhead = 2;  // tiles from the latest to the one that is prefetched
  template <int kThreads>
  static constexpr int kAtOnce = kThreads / kPieces < T::kKeys ? kThreads / kPieces : int{T::kKeys};

  /// Where this thread's piece of the first keys of a tile lies in its page.
  __device__ __forceinline__ int own_place(int thread, int start) const {
    return slot_of(0, start + thread / kPieces % T::kKeys) + thread % kPieces * 16;
  }
  /// Goes on to the next tile, at `start`.
  __device__ __forceinline__ void turn_to(int thread, int start) {
    if (start % kCachePage != 0) {
      from_ += T::kKeys * kDim * 2;
    } else {
      from_ = page_ + own_place(thread, start);
      find_next_page(start);
    }
  }
  __device__ __forceinline__ int values_after_keys() const {
    return job_.cache.kv_heads * (kCachePage * kDim * 2);
  }

  /// Keys or values of the tile at `start`, soon after the latest one, to the second-level cache: a tile or
  /// two under way per block of threads are just what the memory needs, so that any delay would be one of
  /// the memory. By the last threads, which have the least to do in steps of one row.
  __device__ __forceinline__ void prefetch_tile(int thread, int part, int latest, int start) const {
    constexpr int kLine = 128, kThreads = 128, kFirst = kBlockThreads - kThreads;
    if (kDim < 256 || thread < kFirst || start >= share_.end) return;
    const std::byte* from = start / kCachePage == latest / kCachePage
                                ? from_ - thread * 16 + (start - latest) * (kDim * 2)
                                : page_ + slot_of(0, start);
    from += (part == 0 ? 0 : values_after_keys()) + (thread - kFirst) * kLine;
#pragma unroll
    for (int at = 0; at < T::kKeys * kDim * 2; at += kThreads * kLine) prefetch(from + at);
  }

  /// Keys and values of the tile at `start`, which is the next one but one, to the second-level cache. By
  /// half of the threads.
  __device__ __forceinline__ void prefetch_rows(int thread, int start) const {
    constexpr int kLine = 128, kThreads = kBlockThreads / 4;  // of each part
    if (kDim < 256 || start >= share_.end) return;
    const std::byte* from = page_from(start) + slot_of(thread / kThreads, start) + thread % kThreads * kLine;
#pragma unroll
    for (int at = 0; at < T::kKeys * kDim * 2; at += kThreads * kLine) prefetch(from + at);
  }

  /// Keys or values of the tile at `start`, as far as they lie in the share; those from fresh_ on are made by
  /// make_heads(), and all others are zero. By kThreads threads, which have set from_ accordingly.
  template <int kThreads = kBlockThreads>
  __device__ __forceinline__ void fetch_tile(int thread, int part, int start, uint16_t* tile) const {
    constexpr int kRows = kAtOnce<kThreads>;
    const int row = thread / kPieces, piece = thread % kPieces;
    if (kRows * kPieces < kThreads && row >= kRows) return;
    const std::byte* from = part == 0 ? from_ : from_ + values_after_keys();
    uint16_t* to = tile + row * T::kStride + piece * 8;
    const int end = min(fresh_, share_.end);
    if (start >= share_.first && start + T::kKeys <= end) {
#pragma unroll
      for (int j = 0; j < T::kKeys; j += kRows) copy_async(to + j * T::kStride, from + j * kDim * 2);
    } else {
#pragma unroll
      for (int j = 0; j < T::kKeys; j += kRows) {
        const int key = start + row + j;
        if (key < end || key >= share_.end)
          copy_async_or_zero(to + j * T::kStride, from + j * kDim * 2, key >= share_.first && key < end);
      }
    }
    if constexpr (kThreads == kBlockThreads) prefetch_tile(thread, part, start, start + kAhead * T::kKeys);
  }
  /// A tile, as a group of copies; or as two, for keys and then for values.
  __device__ __forceinline__ void fetch(int thread, int start, int buffer) {
    turn_to(thread, start);
    fetch_tile(thread, 0, start, keys(buffer));
    if (!kOne) fetch_tile(thread, 1, start, values(buffer));
    copy_commit();
  }
  __device__ __forceinline__ void fetch_part(int thread, int part, int start, int buffer) {
    if (start < share_.end) {
      if (part == 0) turn_to(thread, start);
      fetch_tile(thread, part, start, part == 0 ? keys(buffer) : values(buffer));
    }
    copy_commit();
  }
  __device__ __forceinline__ void fetch_first(int start) {
    const int thread = thread_here();
    fetch_tile(thread, 0, start, keys(0));
    if (!kNextOnItsWay) copy_commit();
    if (!kOne) fetch_tile(thread, 1, start, values(0));
    copy_commit();
    for (int part = 0; part < (kOne ? 1 : 2); ++part) prefetch_tile(thread, part, start, start + T::kKeys);
  }
  /// Where two tiles are fetched at first: their keys, and after the meeting their values, which are needed
  /// later than what the phase before has left: that would have to wait until all before it has come.
  __device__ __forceinline__ void fetch_first_keys(int start) {
    const int thread = thread_here(), second = start + T::kKeys;
    fetch_tile(thread, 0, start, keys(0));
    if (second < share_.end) {
      turn_to(thread, second);
      fetch_tile(thread, 0, second, keys(1));
    }
    copy_commit();
  }
  __device__ __forceinline__ void fetch_first_values(int start) {
    const int thread = thread_here(), second = start + T::kKeys;
    const std::byte* latest = from_;
    from_ = first_page() + own_place(thread, start);
    fetch_tile(thread, 1, start, values(0));
    from_ = latest;
    if (second < share_.end) fetch_tile(thread, 1, second, values(1));
    copy_commit();
  }

  /// A head to be made, and what of that does not depend on the phases before.
  struct HeadToMake {
    const float* from;
    int position, key, part;  // the latter of the step's own keys and values
    bool query, turns;
    Head<kFours> weights;
    FourTurns turn;
  };
  /// The index-th: first the queries, then the step's own keys and values in this share.
  __device__ __forceinline__ HeadToMake head_to_make(int index) const {
    constexpr int kParts = kOne ? 1 : 2;
    const int lane = thread_here() % 32, own = index - share_.queries;
    HeadToMake head;
    head.query = own < 0;
    head.part = kOne ? 0 : own & 1;
    head.key = max(share_.first, fresh_) + own / kParts;
    head.turns = head.query || (!kOne && head.part == 0);
    const int row = head.query ? row_ : rows().first + head.key - fresh_;
    head.position = step_.row[row].position;
    head.from = head.query
                    ? job_.query + row * job_.query_stride + head_ * kDim
                    : (head.part == 0 ? job_.key : job_.value) + row * job_.kv_stride + share_.kv_head * kDim;
    const float* norm = head.query ? job_.q_norm : head.turns ? job_.k_norm : nullptr;
    head.weights = norm_weights<kFours>(norm, kHalf, lane);
    if (head.turns) head.turn = FourTurns(job_.turns, head.position, 4 * lane);
    return head;
  }
  __device__ __forceinline__ void make_head(const HeadToMake& made, int start) const {
    const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
    Head<kFours> head = read_head<kFours>(made.from, kHalf, lane);
    [[maybe_unused]] Head<kFours> key_norm;  // before the meeting there are no registers for it
    if (kOne) key_norm = norm_weights<kFours>(made.query ? attend_.k_norm : nullptr, kHalf, lane);
    float factor = norm_factor(head, kHalf, job_.epsilon);
    if (!kOne && !made.turns && !job_.v_norm) factor = 1;
    scale_head(head, made.weights, factor);
    if (made.turns) {
      turn_four(head.a[0], head.b[0], made.turn, job_.turns.pairs - 4 * lane);
      turn_head(head, job_.turns, made.position, lane, 1);
    }
    if (made.query) {
      if (kOne) take_turned(head, key_norm, warp, lane);
      put_query(head, warp, lane);
    } else {
      put_fresh(head, made.key, start, made.part, lane);
    }
  }
  /// A head each for the warps. `meets`: the phases before may not be over yet, so it meets the other blocks
  /// before it reads what they left.
  template <int kUnderWay = kFirstGroups>
  __device__ __forceinline__ void make_heads(int start, bool meets) {
    const int warp = thread_here() / 32, fresh = max(0, share_.end - max(share_.first, fresh_));
    const int heads = share_.queries + fresh * (kOne ? 1 : 2);
#pragma unroll 1
    for (int first = 0; first < heads; first += kWarps) {
      const HeadToMake head = head_to_make(min(first + warp, heads - 1));
      if (P::kTwoAtFirst && first == 0) fetch_first_keys(start);
      if (meets && first == 0) {
        phase_.meet<kUnderWay>();
        mark(0);
      }
      if (first + warp < heads) make_head(head, start);
    }
  }
  /// To the first tiles, or to the cache, whence later tiles come. If others do the same they write the same.
  __device__ __forceinline__ void put_fresh(const Head<kFours>& head, int key, int start, int part,
                                            int lane) const {
    const bool here = key < start + kFirstTiles * T::kKeys;
    if (here) {
      const int buffer = kFirstTiles == 1 ? 0 : (key - start) / T::kKeys;
      uint16_t* tile = part == 0 ? keys(buffer) : values(buffer);
      const int row = key - start - buffer * T::kKeys;
      store_bf16(head, reinterpret_cast<std::byte*>(tile + row * T::kStride), kHalf, lane);
    }
    if (here && share_.first_query != 0) return;
    std::byte* page = key / kCachePage == start / kCachePage ? first_page() : page_from(key);
    store_bf16(head, page + slot_of(part, key), kHalf, lane);
  }
  /// A query, in two parts.
  __device__ __forceinline__ void put_query(const Head<kFours>& head, int query, int lane) const {
    auto* high = at<uint16_t>(P::kQueryPlace) + query * T::kStride;
    uint16_t* low = high + kQueries * T::kStride;
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
      const int i = 4 * lane + 128 * j;
      if (i >= kHalf) continue;
      const SplitFour a = split_four(head.a[j]), b = split_four(head.b[j]);
      *reinterpret_cast<uint2*>(high + i) = a.high;
      *reinterpret_cast<uint2*>(high + i + kHalf) = b.high;
      *reinterpret_cast<uint2*>(low + i) = a.low;
      *reinterpret_cast<uint2*>(low + i + kHalf) = b.low;
    }
  }
  /// A query, as multiplied with the n of K = V: its turned dimensions apart, the others weighted with the
  /// norm of the keys.
  __device__ __forceinline__ void take_turned(Head<kFours>& head, const Head<kFours>& norm, int query,
                                              int lane) const {
    const int pairs = this->pairs(), stride = turned_stride(), low = kQueries * stride;
    const bool whole = pairs % 4 == 0;
    auto* to = at<uint16_t>(plan_.turned_queries) + query * stride;
#pragma unroll
    for (int j = 0; j < kFours; ++j) {
      const int i = 4 * lane + 128 * j, count = pairs - i;
      if (count > 0) {
        const SplitFour a = split_four(head.a[j]), b = split_four(head.b[j]);
        store_turned(to + i, a.high, count, whole);
        store_turned(to + i + pairs, b.high, count, whole);
        store_turned(to + low + i, a.low, count, whole);
        store_turned(to + low + i + pairs, b.low, count, whole);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        head.a[j].x[e] = e < count ? 0 : head.a[j].x[e] * norm.a[j].x[e];
        head.b[j].x[e] = e < count ? 0 : head.b[j].x[e] * norm.b[j].x[e];
      }
    }
    if (P::kPairs > 0) return;
    const int padding = 2 * pairs + lane;  // fewer than 16
    if (padding < stride - 8) to[padding] = to[low + padding] = 0;
  }

  const AttendPhase phase_;
  const AttendJob& attend_;
  const HeadsJob& job_;
  const Step& step_;
  const P plan_;
  const int work_, kind_;
  const bool timed_;  // by the first thread
  KeyShare share_ = {};
  int row_ = 0, head_ = 0;           // of this warp's query
  int fresh_ = 0;                    // keys from here on are not in the cache yet
  const std::byte* from_ = nullptr;  // this thread's piece of the latest tile's first keys
  const std::byte* page_ = nullptr;  // the page after that of this tile
};

}  // namespace slip::backend::cuda
