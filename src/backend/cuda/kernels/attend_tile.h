// What narrow and wide attention share: how keys are cut into tiles, what lies where in shared memory, and
// the operands of the tensor cores. The sizes in Tile decide the order of sums, so both must take them from
// here.
#pragma once

#include "backend/cuda/kernels/heads.h"
#include "backend/cuda/kernels/meeting.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

inline constexpr int kQueries = 16;
inline constexpr float kNothing = -INFINITY;

/// Which phase of a step attention is, and where in shared memory what it needs lies. By place: as references
/// all of it would be read like any memory, and more slowly.
struct AttendPhase {
  int arguments, now;  // StepArguments; the number of the phase

  __device__ __forceinline__ const StepArguments& step_arguments() const {
    return *shared_at<const StepArguments>(arguments);
  }
  __device__ __forceinline__ const SharedPlan& plan() const { return step_arguments().plan; }
  __device__ __forceinline__ const AttendJob& job() const {
    return *shared_at<const AttendJob>(phase_at(plan(), now) + static_cast<int>(sizeof(PhaseHead)));
  }
  __device__ __forceinline__ Step& step() const { return *shared_at<Step>(plan().step); }
  __device__ __forceinline__ KeyShares& shares() const { return step().shares[job().sliding ? 0 : 1]; }
  __device__ __forceinline__ int work() const { return plan().work; }

  template <int kUnderWay = 0>
  __device__ __forceinline__ void meet() const {
    cuda::meet<kUnderWay>(step_arguments(), now);
  }
};

template <int kDim>
struct Tile {
  static constexpr int kKeys = 32;          // a lane each, and never more than a block of keys
  static constexpr int kStride = kDim + 8;  // bf16 between keys: rows then start in other banks
  static constexpr int kSteps = kDim / 16;
  static constexpr int kSplit = kSteps < 4    ? kSteps
                                : kDim == 512 ? 8
                                              : 4;       // groups of warps that share the dimensions
  static constexpr int kTogether = kSplit == 8 ? 2 : 1;  // neighbours of those, whose sums are added first
  static constexpr int kStepsPerWarp = kSteps / kSplit;
  static constexpr int kBytes = kKeys * kStride * 2;       // of keys or values
  static constexpr int kOwnQueries = kSplit == 8 ? 2 : 1;  // eights of queries a warp scores
  static constexpr int kScoreStride = kKeys + 4;
  static constexpr int kWeightStride = kKeys + 8;
};
static_assert(KeyBlocks::kShort == Tile<16>::kKeys);

/// What turning the keys of a page takes and all of them have alike: the page's rotations and the norm, in
/// shared memory, by fours of pairs.
class PageTurns {
 public:
  __host__ __device__ static constexpr int bytes(int pairs) { return kArrays * fours(pairs) * 16; }

  __device__ __forceinline__ PageTurns(int place, int pairs)
      : all_(shared_at<float4>(place)), fours_(fours(pairs)) {}
  __device__ __forceinline__ void put_base(int pair, float2 turn) const {
    reinterpret_cast<float2*>(all_ + pair / 2 % 2 * fours_)[pair / 4 * 2 + pair % 2] = turn;
  }
  __device__ __forceinline__ void put_norm(int pair, float first, float second) const {
    reinterpret_cast<float*>(all_ + 2 * fours_)[pair] = first;
    reinterpret_cast<float*>(all_ + 3 * fours_)[pair] = second;
  }
  /// Where two pairs' rotations go, and four pairs' norms, of which there are two halves.
  __device__ __forceinline__ float4* bases(int two) const { return all_ + two % 2 * fours_ + two / 2; }
  __device__ __forceinline__ float4* norms(int index) const { return all_ + 2 * fours_ + index; }
  __device__ __forceinline__ float4 get(int which, int four) const { return all_[which * fours_ + four]; }

 private:
  static constexpr int kArrays = 4;  // rotations of two pairs and of the other two; norms of both halves
  __host__ __device__ static constexpr int fours(int pairs) { return (pairs + 3) / 4; }

  float4* all_;
  int fours_;
};

/// Keys that a query sees, and its place in partials.
struct alignas(16) QuerySeen {
  int first, end, place, unused;
};

/// Places in shared memory. Of large heads with keys and values there is one tile at a time, of all others
/// the next one is on its way; of small ones with keys and values it is from the start.
template <int kDim, bool kOne>
struct AttendPlan {
  using T = Tile<kDim>;
  static constexpr int kBuffers = kOne || kDim <= 256 ? 2 : 1;
  static constexpr int kTileBytes = kOne ? T::kBytes : 2 * T::kBytes;  // keys, then values
  static constexpr int kTiles = 0;
  static constexpr int kWeights = kBuffers * kTileBytes;  // [high, low][query][key]
  static constexpr int kRescale = kWeights + 2 * kQueries * T::kWeightStride * 2;
  static constexpr int kSeen = kRescale + kQueries * 4;                      // QuerySeen of every query
  static constexpr int kScores = kSeen + kQueries * int{sizeof(QuerySeen)};  // [split][query][key]
  static constexpr int kScoreBytes = T::kSplit * kQueries * T::kScoreStride * 4;
  // Queries until they are in registers, high parts and low parts: behind the scores, or where there is no
  // space for that, where the second tile or the scores come.
  static constexpr bool kTwoAtFirst = kBuffers == 2 && !kOne;
  static constexpr int kQueryBytes = 2 * kQueries * T::kStride * 2;
  static constexpr int kQueryPlace = kTwoAtFirst     ? kScores + kScoreBytes
                                     : kBuffers == 2 ? kTileBytes
                                                     : kScores;
  static_assert(kBuffers == 1 || kQueryBytes <= kTileBytes);
  static constexpr int kTurned = kScores;  // where K = V, turned keys lie where scores come
  // Pairs that turn where K = V: of large heads, whose time matters, as many as all models turn; 0 = any.
  static constexpr int kPairs = kOne && kDim >= 256 ? kDim / 8 : 0;

  int turned_queries = 0, turning = 0, end = 0;  // where K = V: turned dimensions of queries; PageTurns
};

__host__ __device__ constexpr int turned_dims(int pairs) {
  return (2 * pairs + 15) / 16 * 16;
}

template <int kDim, bool kOne>
__host__ __device__ constexpr AttendPlan<kDim, kOne> attend_plan(int pairs) {
  using P = AttendPlan<kDim, kOne>;
  using T = Tile<kDim>;
  const int stride = kOne ? turned_dims(pairs) + 8 : 0, turned_bytes = 2 * T::kKeys * stride * 2;
  int shared = P::kScoreBytes + (P::kTwoAtFirst ? P::kQueryBytes : 0);
  if (P::kBuffers == 1 && P::kQueryBytes > shared) shared = P::kQueryBytes;
  if (turned_bytes > shared) shared = turned_bytes;
  P plan;
  plan.turned_queries = P::kScores + shared;
  plan.turning = plan.turned_queries + 2 * kQueries * stride * 2;
  plan.end = plan.turning + (kOne ? PageTurns::bytes(pairs) : 0);
  return plan;
}

/// Where a lane's row begins for load_matrices() of the operand with 16 rows: rows 0 to 7, then 8 to 15, of
/// eight columns, then the same of the next eight. In bf16 from the operand's start.
__device__ __forceinline__ int rows_place(int lane, int stride) {
  return lane % 16 * stride + lane / 16 * 8;
}
/// The same with rows that lie as columns, for load_transposed().
__device__ __forceinline__ int columns_place(int lane, int stride) {
  return (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
}
/// Of the operand with eight columns in two parts: 16 rows of the high part, then of the low part, which lies
/// `low` after it.
__device__ __forceinline__ int split_place(int lane, int stride, int low) {
  return lane % 8 * stride + lane / 8 % 2 * 8 + lane / 16 * low;
}

/// Four values of turned dimensions, of which `count` are there.
__device__ __forceinline__ void store_turned(uint16_t* to, uint2 four, int count, bool whole) {
  if (whole) {
    *reinterpret_cast<uint2*>(to) = four;
    return;
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (e < count) to[e] = static_cast<uint16_t>((e < 2 ? four.x : four.y) >> 16 * (e % 2));
  }
}

/// Fours of turned pairs that a key takes the place of, as a power of two, so that nobody divides.
__device__ __forceinline__ int log_of_fours(int pairs) {
  int log = 0;
  while (4 << log < pairs) ++log;
  return log;
}
/// Four pairs of a key and their rotations: a thread has those at `index`, where a key has 2^log fours.
/// `kPairs`: so many turn; 0 = any number.
template <int kDim, int kPairs>
struct KeyTurns {
  FourTurns turn;
  static constexpr int kKeys = Tile<kDim>::kKeys;

  __device__ __forceinline__ static bool is_there(int key, int pair, int pairs) {
    return kPairs * kKeys == 4 * kBlockThreads || (key < kKeys && pair < pairs);
  }
  __device__ __forceinline__ void load(const Turns& turns, int pairs, int start, int index, int log) {
    const int key = index >> log, pair = (index - (key << log)) * 4;
    if (is_there(key, pair, pairs)) turn.load_page(turns, pairs, start % kCachePage + key, pair);
  }
  /// `page`: PageTurns, or what has the same in registers.
  template <typename Page>
  __device__ __forceinline__ void use(const Page& page, int pairs, int index, int log, const uint16_t* n,
                                      uint16_t* high, int low) {
    const int key = index >> log, four = index - (key << log), pair = four * 4;
    if (!is_there(key, pair, pairs)) return;
    const uint16_t* row = n + key * Tile<kDim>::kStride + pair;
    turn.set_base(page.get(0, four), page.get(1, four));
    const auto values = [](const uint16_t* from, const float4& norm) {
      const uint2 two = *reinterpret_cast<const uint2*>(from);
      return Four{{bf16_low(two.x) * norm.x, bf16_high(two.x) * norm.y, bf16_low(two.y) * norm.z,
                   bf16_high(two.y) * norm.w}};
    };
    Four x = values(row, page.get(2, four)), y = values(row + kDim / 2, page.get(3, four));
    turn_four(x, y, turn, 4);
    const SplitFour one = split_four(x), two = split_four(y);
    const int stride = turned_dims(pairs) + 8;
    const bool whole = pairs % 4 == 0;
    uint16_t* to = high + key * stride + pair;
    store_turned(to, one.high, pairs - pair, whole);
    store_turned(to + pairs, two.high, pairs - pair, whole);
    store_turned(to + low, one.low, pairs - pair, whole);
    store_turned(to + low + pairs, two.low, pairs - pair, whole);
  }
};

}  // namespace slip::backend::cuda
