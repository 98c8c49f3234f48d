// The warps of wide attention that bring keys and values, tile after tile, through a few buffers, and where
// K = V rebuild the turned dimensions of keys, while other warps multiply. A tile is brought once what lay in
// its buffer has been used; that is known when the tile before it is.
#pragma once

#include "backend/cuda/kernels/waiting.h"
#include "backend/cuda/kernels/wide_attend_plan.h"

namespace slip::backend::cuda {

/// PageTurns of the one four of pairs that a thread always turns, in registers.
struct OwnTurns {
  float4 all[4];

  __device__ __forceinline__ float4 get(int which, int) const { return all[which]; }
  __device__ __forceinline__ void load_base(const Turns& turns, int pairs, int page, int four) {
    const auto* from = reinterpret_cast<const float4*>(turns.base) + (page * pairs + four * 4) / 2;
    all[0] = __ldg(from);
    all[1] = __ldg(from + 1);
  }
  __device__ __forceinline__ void load_norm(const float* norm, int half, int four) {
    all[2] = __ldg(reinterpret_cast<const float4*>(norm) + four);
    all[3] = __ldg(reinterpret_cast<const float4*>(norm + half) + four);
  }
};

template <int kDim, bool kOne>
class WideKeys {
 public:
  __device__ __forceinline__ WideKeys(const WideAttend& attend, const WideUnit& unit)
      : job_(attend.job),
        unit_(unit),
        rows_(attend.rows.group[unit.group]),
        plan_(wide_attend_plan<kDim, kOne>(job_)),
        thread_(static_cast<int>(threadIdx.x) - W::kWorkers),
        log_(kOne ? log_of_fours(pairs()) : 0) {}

  __device__ __forceinline__ void run() {
    if constexpr (kHolds) {
      own_.load_norm(job_.k_norm, kDim / 2, own_four());
    } else if (kOne) {
      put_norms();
    }
    next_ = unit_.start();
#pragma unroll 1
    for (int i = 0; i < W::kBuffers - 1; ++i) bring();
    int tile = 0;
#pragma unroll 1
    for (int start = unit_.start(); start < unit_.end_key; start += T::kKeys, ++tile) {
      finish(start, tile);
      for (int team = 0; team < W::kTeams; ++team)
        arrive_some(WideBarriers::ready(team, tile), W::kTeamThreads + W::kLoaders);
      if (tile > 0) sync_some(WideBarriers::used(tile - 1), W::kThreads);
      bring();
    }
  }

 private:
  using W = WideTileOf<kDim, kOne>;
  using T = Tile<kDim>;

  __device__ __forceinline__ int pairs() const {
    return W::kPairs > 0 ? W::kPairs : job_.own.turns.pairs;
  }
  __device__ __forceinline__ PageTurns page_turns() const {
    return PageTurns(plan_.turning, pairs());
  }

  /// Starts to bring the next tile, as a group of copies, which is empty behind the last one.
  __device__ __forceinline__ void bring() {
    if (next_ < unit_.end_key) {
      if (next_ % kCachePage == 0 || from_ == nullptr)
        from_ = cache_slot(job_.own.cache, rows_, job_.own.step, 0, unit_.kv_head,
                           next_ / kCachePage * kCachePage);
      const int place = plan_.buffers + buffer_ * W::kBufferBytes;
      const std::byte* keys = from_ + next_ % kCachePage * (kDim * 2);
      bring_part(keys, place);
      if (!kOne)
        bring_part(keys + static_cast<int64_t>(job_.own.cache.kv_heads) * (kCachePage * kDim * 2),
                   place + T::kBytes);
      next_ += T::kKeys;
      buffer_ = buffer_ + 1 < W::kBuffers ? buffer_ + 1 : 0;
    }
    copy_commit();
  }
  /// Keys or values of a tile, zero where nobody sees them.
  __device__ __forceinline__ void bring_part(const std::byte* from, int place) const {
    constexpr int kPieces = kDim / 8;  // of 16 bytes
    constexpr int kAtOnce = W::kLoaders / kPieces < T::kKeys ? W::kLoaders / kPieces : int{T::kKeys};  // keys
    const int own = thread_ / kPieces, piece = thread_ % kPieces;
    if (kAtOnce * kPieces < W::kLoaders && own >= kAtOnce) return;
    from += (own * kDim + piece * 8) * 2;
    auto* to = shared_at<std::byte>(place + (own * T::kStride + piece * 8) * 2);
    if (next_ >= unit_.first_key && next_ + T::kKeys <= unit_.end_key) {
#pragma unroll
      for (int key = 0; key < T::kKeys; key += kAtOnce)
        copy_async(to + key * T::kStride * 2, from + key * kDim * 2);
      return;
    }
#pragma unroll 1
    for (int key = 0; key < T::kKeys; key += kAtOnce) {
      const int at = next_ + own + key;
      copy_async_or_zero(to + key * T::kStride * 2, from + key * kDim * 2,
                         at >= unit_.first_key && at < unit_.end_key);
    }
  }

  /// Waits for the oldest tile that is on its way, and makes it ready.
  __device__ __forceinline__ void finish(int start, int tile) {
    if constexpr (!kOne) {
      copy_wait<W::kBuffers - 2>();
    } else {
      const bool new_page = tile == 0 || start % kCachePage == 0;
      Fours turns[kFours];
#pragma unroll
      for (int i = 0; i < kFours; ++i) load(turns[i], start, i);
      if constexpr (kHolds) {
        if (new_page) own_.load_base(job_.own.turns, pairs(), start / kCachePage, own_four());
      } else {
        if (new_page) put_bases(start);
      }
      copy_wait<W::kBuffers - 2>();
      sync_some(WideBarriers::kLoaders, W::kLoaders);
      turn(start, tile, turns);
    }
  }

  using Fours = KeyTurns<kDim, W::kPairs>;
  // Where the number of pairs is known, fours of a tile that a thread turns, which are the same four of keys.
  static constexpr int kFours = W::kPairs > 0 ? W::kPairs / 4 * T::kKeys / W::kLoaders : 1;
  static constexpr bool kHolds = W::kPairs > 0;
  static_assert(!kHolds || W::kLoaders % (W::kPairs / 4) == 0);
  __device__ __forceinline__ int own_four() const {
    return thread_ & ((1 << log_) - 1);
  }
  __device__ __forceinline__ void load(Fours& turns, int start, int which) const {
    turns.load(job_.own.turns, pairs(), start, thread_ + which * W::kLoaders, log_);
  }

  /// The turned dimensions of keys, and zeros behind them.
  __device__ __forceinline__ void turn(int start, int tile, Fours (&turns)[kFours]) const {
    const int stride = turned_dims(pairs()) + 8, low = T::kKeys * stride;
    const auto* keys = shared_at<const uint16_t>(plan_.buffers + tile % W::kBuffers * W::kBufferBytes);
    auto* high = shared_at<uint16_t>(plan_.turned) + tile % 2 * 2 * low;
    if constexpr (kHolds) {
#pragma unroll
      for (int i = 0; i < kFours; ++i)
        turns[i].use(own_, pairs(), thread_ + i * W::kLoaders, log_, keys, high, low);
    } else {
      for (int i = thread_; i < T::kKeys << log_; i += W::kLoaders) {
        if (i != thread_) turns[0].load(job_.own.turns, pairs(), start, i, log_);
        turns[0].use(page_turns(), pairs(), i, log_, keys, high, low);
      }
      const int padding = stride - 8 - 2 * pairs();
      for (int i = thread_; i < T::kKeys * padding; i += W::kLoaders) {
        const int to = i / padding * stride + 2 * pairs() + i % padding;
        high[to] = high[low + to] = 0;
      }
    }
  }
  __device__ __forceinline__ void put_norms() const {
    for (int i = thread_; i < pairs(); i += W::kLoaders)
      page_turns().put_norm(i, __ldg(job_.k_norm + i), __ldg(job_.k_norm + i + kDim / 2));
  }
  __device__ __forceinline__ void put_bases(int start) const {
    sync_some(WideBarriers::kLoaders, W::kLoaders);  // those of the page before have been used
    const auto* base = reinterpret_cast<const float2*>(job_.own.turns.base) + start / kCachePage * pairs();
    for (int i = thread_; i < pairs(); i += W::kLoaders) page_turns().put_base(i, __ldg(base + i));
  }

  const AttendJob& job_;
  const WideUnit& unit_;
  const RowGroup& rows_;
  const WideAttendPlan plan_;
  const int thread_, log_;
  int next_ = 0, buffer_ = 0;        // the next tile to be brought, and where to
  const std::byte* from_ = nullptr;  // its page: this head's keys
  OwnTurns own_;
};

}  // namespace slip::backend::cuda
