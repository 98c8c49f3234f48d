// Attention of one row to many keys where K = V and heads are large (attend.h has all other cases): two teams
// of eight warps, each with blocks of keys of its own. A tile of keys is a chain of steps with a barrier
// after each, so most of the time of 16 warps that share a tile is waiting; one team waits while the other
// works, also for its next tile, which comes by bulk copies to where the last one was. The sums are those of
// attend.h, in the same order.
#pragma once

#include "backend/cuda/kernels/attend_inputs.h"
#include "backend/cuda/kernels/attend_weights.h"
#include "backend/cuda/kernels/stream.h"

namespace slip::backend::cuda {

inline constexpr int kTeams = 2, kTeamWarps = kWarps / kTeams, kTeamThreads = kTeamWarps * 32;
/// The number of its sync_some().
__device__ constexpr int team_barrier(int team) {
  return 1 + team;
}

/// Places in shared memory, beside those of AttendPlan. A tile for each team lies where there are two for
/// all; of weights and factors, which there is room for 16 queries of, each has eight.
struct TeamPlan {
  static constexpr int kDim = 512;
  using T = Tile<kDim>;
  using P = AttendPlan<kDim, true>;
  static constexpr int kStride = turned_dims(P::kPairs) + 8;  // of turned dimensions
  static constexpr int kTurnedBytes = 2 * T::kKeys * kStride * 2;
  static constexpr P kPlan = attend_plan<kDim, true>(P::kPairs);
  static constexpr int kHalfQueries = kQueries / 2 * kStride * 2;  // of turned queries there are eight
  static_assert(kTurnedBytes <= P::kScoreBytes && PageTurns::bytes(P::kPairs) <= kHalfQueries);

  /// Turned keys, and when they have been used, scores: [split][query][key].
  static constexpr int turned(int team) { return team == 0 ? P::kScores : kPlan.turning; }
  static constexpr int turning(int team) { return kPlan.turned_queries + kHalfQueries * (1 + 2 * team); }
  static constexpr int kEnd = kPlan.turning + kTurnedBytes;
};

class TeamAttention : AttendInputs<TeamPlan::kDim, true> {
 public:
  __device__ __forceinline__ explicit TeamAttention(const AttendPhase& phase)
      : Inputs(phase), team_(thread_here() / kTeamThreads), warp_(thread_here() / 32 % kTeamWarps) {}

  /// The shares that are kept.
  __device__ __forceinline__ void run() {
    const KeyShares& shares = step_.shares[kind_];
    const int count = min(shares.count - shares.first, KeyShares::kKept);
    brought_ = place_here(phase_.plan())->brought;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      if (i > 0) __syncthreads();  // the tiles of the one before have been used
      share_ = load_words(&shares.kept[i]);
      begin(i == 0 && shares.first == 0);
      take_own();
    }
    __syncwarp();
    if (thread_here() % 32 == 0) place_here(phase_.plan())->brought = brought_;
  }

 private:
  static constexpr int kDim = TeamPlan::kDim;
  using Inputs = AttendInputs<kDim, true>;
  static constexpr int kOutTiles = kDim / 16 / kTeamWarps;  // of 16 dimensions, per warp
  static constexpr int kRowsOfWarp = T::kKeys / kTeamWarps;
  static constexpr int kItems = T::kKeys * P::kPairs / 4 / kTeamThreads;  // fours of pairs, per thread
  static constexpr int kLog = 4;                                          // of fours of a key
  static_assert(P::kPairs == 4 << kLog && T::kSplit == kTeamWarps && T::kTogether == 2);

  __device__ __forceinline__ void meet_team() const {
    sync_some(team_barrier(team_), kTeamThreads);
  }
  __device__ __forceinline__ uint16_t* tile() const {
    return at<uint16_t>(team_ * T::kBytes);
  }
  __device__ __forceinline__ uint16_t* turned() const {
    return at<uint16_t>(TeamPlan::turned(team_));
  }
  __device__ __forceinline__ PageTurns page_turns() const {
    return PageTurns(work_ + TeamPlan::turning(team_), P::kPairs);
  }

  /// Queries are made, and the step's own keys, which go to the cache: whatever is read comes from there.
  __device__ __forceinline__ void begin(bool meets) {
    fresh_ = job_.stores ? step_.row[rows().first].position : share_.end;
    find_query();
    make_heads<0>(-(1 << 20), meets);
    fence_bulk();
    __syncthreads();
    const uint16_t* from = at<uint16_t>(P::kQueryPlace) + warp_ * T::kStepsPerWarp * 16 +
                           split_place(thread_here() % 32, T::kStride, kQueries * T::kStride);
#pragma unroll
    for (int s = 0; s < T::kStepsPerWarp; ++s) load_matrices(queries_[s], from + s * 16);
    __syncthreads();  // a tile comes where they were
  }

  /// This team's part of the share: the first or the second half of its blocks of keys.
  __device__ __forceinline__ void take_own() {
    const int half = KeyBlocks::of(false, (share_.first + share_.end) / 2);
    const int cut = half > share_.block ? KeyBlocks::start(false, half) : share_.end;
    const int first = team_ == 0 ? share_.first & -T::kKeys : cut, end = team_ == 0 ? cut : share_.end;
    if (first >= end) return;
    int block_end = KeyBlocks::start(false, KeyBlocks::of(false, first) + 1);
    page_ = page_from(first);
    find_page_behind(first);
    bring_norm();
    bring_base(first);
    fetch_rows(first);
    load_turns(first);
    copy_wait<0>();
#pragma unroll 1
    for (int start = first; start < end; start += T::kKeys) {
      const int next = start + T::kKeys;
      const bool new_page = next < end && next % kCachePage == 0;
      wait_arrival(rows_arrival(phase_.plan(), thread_here() / 32), brought_);
      brought_ ^= 1;
      meet_team();
      turn_keys();
      float scores[2][4] = {};
      score(scores);
      meet_team();
      if (new_page) bring_base(next);
      score_turned(scores);
      meet_team();  // turned keys have been used
      put_scores(scores);
      meet_team();
      weigh(start);
      meet_team();
      add_values();
      if (warp_ < share_.queries) weights_.add_up();
      if (next >= block_end || next >= end) {
        put_block(KeyBlocks::of(false, start) - share_.block_offset);
        block_end = KeyBlocks::start(false, KeyBlocks::of(false, next) + 1);
      }
      if (next >= end) break;
      copy_wait<0>();  // rotations, if any
      meet_team();     // the tile has been used
      if (new_page) {
        page_ = behind_;
        find_page_behind(next);
      }
      fetch_rows(next);
      load_turns(next);
    }
  }

  /// What turns keys: the norm for all of them, rotations for those of a page. By one warp of the team, as
  /// groups of copies.
  __device__ __forceinline__ void bring_norm() const {
    if (warp_ != kTeamWarps - 1) return;
    const int lane = thread_here() % 32, four = lane * 4;
    static_assert(P::kPairs / 2 == 32);
    copy_async(page_turns().norms(lane),
               attend_.k_norm + (four < P::kPairs ? four : four - P::kPairs + kDim / 2));
  }
  __device__ __forceinline__ void bring_base(int start) const {
    if (warp_ != kTeamWarps - 1) return;
    const int lane = thread_here() % 32;
    copy_async(page_turns().bases(lane), job_.turns.base + start / kCachePage * P::kPairs * 2 + lane * 4);
    copy_commit();
  }
  __device__ __forceinline__ void find_page_behind(int start) {
    const int next = (start & -kCachePage) + kCachePage;
    if (next < share_.end) behind_ = page_from(next);
  }
  __device__ __forceinline__ const std::byte* row_from(int key) const {
    return page_ + slot_of(0, key);
  }
  /// This warp's keys of the tile at `start`; those behind the last one are zero. And those of the tile after
  /// the next one to the second-level cache.
  __device__ __forceinline__ void fetch_rows(int start) const {
    const int lane = thread_here() % 32, key = start + warp_ * kRowsOfWarp,
              count = min(kRowsOfWarp, max(0, share_.end - key));
    auto* to = reinterpret_cast<std::byte*>(tile() + warp_ * kRowsOfWarp * T::kStride);
    for (int row = count; row < kRowsOfWarp; ++row) {
      for (int i = lane * 16; i < kDim * 2; i += 512)
        *reinterpret_cast<uint4*>(to + row * T::kStride * 2 + i) = make_uint4(0, 0, 0, 0);
    }
    if (count < kRowsOfWarp) fence_bulk();
    copy_bulk_rows<kRowsOfWarp>(to, T::kStride * 2, row_from(key), kDim * 2, count,
                                rows_arrival(phase_.plan(), thread_here() / 32));
    __syncwarp();
    const int ahead = key + 2 * T::kKeys;
    if (ahead + kRowsOfWarp > share_.end) return;
    const std::byte* later =
        ahead / kCachePage == start / kCachePage ? row_from(ahead) : behind_ + slot_of(0, ahead);
    prefetch(later + lane * (kRowsOfWarp * kDim * 2 / 32));
  }

  __device__ __forceinline__ void load_turns(int start) {
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      turns_[i].load(job_.turns, P::kPairs, start, thread_here() % kTeamThreads + i * kTeamThreads, kLog);
  }
  /// The turned dimensions of the tile's keys, from the n they are made of.
  __device__ __forceinline__ void turn_keys() {
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      turns_[i].use(page_turns(), P::kPairs, thread_here() % kTeamThreads + i * kTeamThreads, kLog, tile(),
                    turned(), T::kKeys * TeamPlan::kStride);
  }

  /// Scores of all keys, 16 and 16, with this warp's part of the dimensions.
  __device__ __forceinline__ void score(float (&scores)[2][4]) const {
    const uint16_t* key = tile() + warp_ * T::kStepsPerWarp * 16 + rows_place(thread_here() % 32, T::kStride);
#pragma unroll
    for (int s = 0; s < T::kStepsPerWarp; ++s) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t a[4];
        load_matrices(a, key + half * 16 * T::kStride + s * 16);
#pragma unroll
        for (int part = 0; part < 4; part += 2)
          mma(scores[half], a, queries_[s][part], queries_[s][part + 1]);
      }
    }
  }
  __device__ __forceinline__ void score_turned(float (&scores)[2][4]) const {
    constexpr int kStride = TeamPlan::kStride;
    const int lane = thread_here() % 32;
    const uint16_t* key = turned() + warp_ * 16 + rows_place(lane, kStride);
    uint32_t b[4];
    load_matrices(
        b, at<uint16_t>(plan_.turned_queries) + warp_ * 16 + split_place(lane, kStride, kQueries * kStride));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t high[4], low[4];
      load_matrices(high, key + half * 16 * kStride);
      load_matrices(low, key + (T::kKeys + half * 16) * kStride);
      mma(scores[half], high, b[0], b[1]);
      mma(scores[half], high, b[2], b[3]);
      mma(scores[half], low, b[0], b[1]);
    }
  }
  __device__ __forceinline__ float* scores_at() const {
    return at<float>(TeamPlan::turned(team_));
  }
  __device__ __forceinline__ void put_scores(const float (&scores)[2][4]) const {
    const int lane = thread_here() % 32;
    float* to = scores_at() + (warp_ * 8 + lane % 4 * 2) * T::kScoreStride + lane / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half, to += 16) {
      to[0] = scores[half][0];
      to[T::kScoreStride] = scores[half][1];
      to[8] = scores[half][2];
      to[T::kScoreStride + 8] = scores[half][3];
    }
  }

  /// The weights of a tile's keys for this warp's query.
  __device__ __forceinline__ void weigh(int start) {
    if (warp_ >= share_.queries) return;
    const int lane = thread_here() % 32;
    const float* scores = scores_at() + warp_ * T::kScoreStride + lane;
    const QuerySeen sees = load_words(at<const QuerySeen>(P::kSeen) + warp_);
    float score = 0;
#pragma unroll
    for (int w = 0; w < T::kSplit; w += 2)
      score += scores[w * 8 * T::kScoreStride] + scores[(w + 1) * 8 * T::kScoreStride];
    const bool seen = start + lane >= sees.first && start + lane < sees.end;
    const int own = team_ * 8 + warp_;
    weights_.weigh(lane, score, seen, at<float>(P::kRescale) + own,
                   at<uint16_t>(P::kWeights) + own * T::kWeightStride + lane, kQueries * T::kWeightStride);
  }

  /// Of this warp's dimensions, 16 at a time.
  __device__ __forceinline__ static int dims_of(int warp, int i) {
    return (warp + kTeamWarps * i) * 16;
  }
  __device__ __forceinline__ void add_values() {
    const int lane = thread_here() % 32;
    const uint16_t* value = tile() + columns_place(lane, T::kStride);
    const uint16_t* weight = at<uint16_t>(P::kWeights) + team_ * 8 * T::kWeightStride +
                             split_place(lane, T::kWeightStride, kQueries * T::kWeightStride);
    const auto factor = *reinterpret_cast<const float2*>(at<float>(P::kRescale) + team_ * 8 + lane % 4 * 2);
#pragma unroll
    for (auto& out : out_) {
      out[0] *= factor.x;
      out[1] *= factor.y;
      out[2] *= factor.x;
      out[3] *= factor.y;
    }
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      uint32_t b[4], a[kOutTiles][4];
#pragma unroll
      for (int i = 0; i < kOutTiles; ++i)
        load_transposed(a[i], value + s * 16 * T::kStride + dims_of(warp_, i));
      load_matrices(b, weight + s * 16);
#pragma unroll
      for (int i = 0; i < kOutTiles; ++i) mma(out_[i], a[i], b[0], b[1]);
#pragma unroll
      for (int i = 0; i < kOutTiles; ++i) mma(out_[i], a[i], b[2], b[3]);
    }
  }

  /// A block of keys ends, and the next one begins with nothing.
  __device__ __forceinline__ void put_block(int block) {
    const int lane = thread_here() % 32;
    if (lane == 0 && warp_ < share_.queries)
      reinterpret_cast<float2*>(attend_.weights)[at<QuerySeen>(P::kSeen)[warp_].place + block] =
          make_float2(weights_.most, weights_.total);
    weights_.begin();
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int query = lane % 4 * 2 + c;
      if (query >= share_.queries) continue;
      float* to = attend_.partials +
                  static_cast<int64_t>(at<QuerySeen>(P::kSeen)[query].place + block) * kDim + lane / 4;
#pragma unroll
      for (int i = 0; i < kOutTiles; ++i) {
        to[dims_of(warp_, i)] = out_[i][c];
        to[dims_of(warp_, i) + 8] = out_[i][2 + c];
      }
    }
#pragma unroll
    for (auto& out : out_) {
#pragma unroll
      for (float& sum : out) sum = 0;
    }
  }

  const int team_, warp_;  // the latter in its team
  uint32_t brought_ = 0;
  const std::byte* behind_ = nullptr;  // the page after that of this tile
  uint32_t queries_[T::kStepsPerWarp][4];
  KeyTurns<kDim, P::kPairs> turns_[kItems];
  float out_[kOutTiles][4] = {};
  KeyWeights weights_;  // of this warp's query
};

/// Whether heads are of the kind that teams can take.
inline bool fits_teams(const HeadsJob& job) {
  return job.cache.k_is_v && job.head_dim == TeamPlan::kDim && job.turns.pairs == TeamPlan::P::kPairs;
}
__device__ __noinline__ inline void attend_teams(AttendPhase phase) {
  TeamAttention(phase).run();
}

}  // namespace slip::backend::cuda
