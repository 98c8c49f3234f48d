// The products of attention (attend.h), by a warp of a block: queries times a tile of keys, the weights that
// makes, and weights times values. Groups of warps share the head's dimensions: each multiplies 16 keys with
// its part of the queries, the partial scores are added in the order of the groups, a warp per query makes
// weights of them, and each warp weights 16 dimensions of the values. Keys and values are the operand of 16
// rows, queries that of eight columns, so that up to eight cost half of what 16 do.
#pragma once

#include "backend/cuda/kernels/attend_inputs.h"
#include "backend/cuda/kernels/attend_weights.h"

namespace slip::backend::cuda {

template <int kDim, bool kOne>
class AttendProducts : protected AttendInputs<kDim, kOne> {
 protected:
  using Inputs = AttendInputs<kDim, kOne>;
  using Inputs::attend_, Inputs::plan_, Inputs::share_;
  using Inputs::Inputs;
  using Inputs::keys, Inputs::values, Inputs::turned_stride;
  using typename Inputs::P;
  using typename Inputs::T;
  template <typename Type>
  __device__ __forceinline__ Type* at(int place) const {
    return Inputs::template at<Type>(place);
  }

  /// What a thread holds of so many eights of queries. `kApart`: the halves of the warps have tiles of their
  /// own; what is there for 16 queries is then for eight of each.
  template <int kEights, bool kApart = false>
  struct Held {
    static constexpr int kOwn = T::kOwnQueries == 2 ? kEights : 1;  // eights that a warp scores
    static constexpr int kSharing = kApart ? kWarps / 2 : kWarps;   // warps with one tile
    static constexpr int kOutTiles = kDim > 16 * kSharing ? kDim / 16 / kSharing : 1;  // of 16 dimensions
    static_assert(!kApart || (kEights == 1 && T::kOwnQueries == 1));
    uint32_t queries[kOwn][T::kStepsPerWarp][4];  // high and low parts of 16 dimensions
    float scores[kOwn][4];                        // of a tile
    float out[kOutTiles][kEights][4];             // of a block of keys
  };

  /// Which of two tiles is a warp's, and which warp of those that share it.
  template <bool kApart>
  __device__ __forceinline__ static int tile_of(int warp) {
    return kApart ? warp / (kWarps / 2) : 0;
  }
  template <bool kApart>
  __device__ __forceinline__ static int own_warp(int warp) {
    return kApart ? warp % (kWarps / 2) : warp;
  }
  /// How a warp scores: its part of the dimensions, 16 keys, and eight queries or, of large heads, all.
  __device__ __forceinline__ static int split_of(int warp) { return warp / 2 % T::kSplit; }
  __device__ __forceinline__ static int first_eight(int warp) {
    return T::kOwnQueries == 2 ? 0 : warp / (2 * T::kSplit);
  }
  __device__ __forceinline__ static int first_key(int warp) { return warp % 2 * 16; }

  template <int kEights, bool kApart>
  __device__ __forceinline__ void load_queries(int thread, Held<kEights, kApart>& held) const {
    const int warp = own_warp<kApart>(thread / 32), eight = first_eight(warp);
    if (eight >= kEights) return;
    const uint16_t* from = at<uint16_t>(P::kQueryPlace) + eight * 8 * T::kStride +
                           split_of(warp) * T::kStepsPerWarp * 16 +
                           split_place(thread % 32, T::kStride, kQueries * T::kStride);
#pragma unroll
    for (int e = 0; e < held.kOwn; ++e) {
#pragma unroll
      for (int s = 0; s < T::kStepsPerWarp; ++s)
        load_matrices(held.queries[e][s], from + e * 8 * T::kStride + s * 16);
    }
  }

  /// Scores of this warp's keys with its dimensions.
  template <int kEights, bool kApart>
  __device__ __forceinline__ void score(int thread, int buffer, Held<kEights, kApart>& held) const {
    const int warp = own_warp<kApart>(thread / 32);
    if (first_eight(warp) >= kEights) return;
    const uint16_t* key = keys(buffer) + first_key(warp) * T::kStride +
                          split_of(warp) * T::kStepsPerWarp * 16 + rows_place(thread % 32, T::kStride);
    uint32_t a[T::kStepsPerWarp][4];
#pragma unroll
    for (int s = 0; s < T::kStepsPerWarp; ++s) load_matrices(a[s], key + s * 16);
#pragma unroll
    for (int e = 0; e < held.kOwn; ++e) {
#pragma unroll
      for (float& sum : held.scores[e]) sum = 0;
    }
#pragma unroll
    for (int s = 0; s < T::kStepsPerWarp; ++s) {
#pragma unroll
      for (int part = 0; part < 4; part += 2) {
#pragma unroll
        for (int e = 0; e < held.kOwn; ++e)
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
      for (int e = 0; e < held.kOwn; ++e) load_matrices(b[e], query + e * 8 * stride + s * 16);
#pragma unroll
      for (int e = 0; e < held.kOwn; ++e) {
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
  template <int kEights, bool kApart>
  __device__ __forceinline__ void put_scores(int thread, const Held<kEights, kApart>& held) const {
    const int warp = own_warp<kApart>(thread / 32), lane = thread % 32, eight = first_eight(warp);
    if (eight >= kEights) return;
    const int place = kApart ? tile_of<kApart>(thread / 32) : eight;
    float* to = at<float>(P::kScores) +
                ((split_of(warp) * kQueries + place * 8) + lane % 4 * 2) * T::kScoreStride + first_key(warp) +
                lane / 4;
#pragma unroll
    for (int e = 0; e < held.kOwn; ++e, to += 8 * T::kScoreStride) {
      to[0] = held.scores[e][0];
      to[T::kScoreStride] = held.scores[e][1];
      to[8] = held.scores[e][2];
      to[T::kScoreStride + 8] = held.scores[e][3];
    }
  }

  /// The weights of a tile's keys for this warp's query.
  template <bool kApart = false>
  __device__ __forceinline__ void weigh(int thread, int start) {
    const int warp = thread / 32, lane = thread % 32, query = own_warp<kApart>(warp);
    if (query >= share_.queries) return;
    const float* scores = at<float>(P::kScores) + warp * T::kScoreStride + lane;
    const QuerySeen sees = load_words(at<const QuerySeen>(P::kSeen) + query);
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

  template <int kEights, bool kApart>
  __device__ __forceinline__ static bool has_no_dimensions(const Held<kEights, kApart>& held, int warp) {
    return kDim < held.kSharing * 16 && warp * 16 >= kDim;
  }
  /// This warp's dimensions of the tile's values, weighted.
  template <int kEights, bool kApart>
  __device__ __forceinline__ void add_values(int thread, int buffer, Held<kEights, kApart>& held) const {
    const int warp = own_warp<kApart>(thread / 32), lane = thread % 32;
    if (has_no_dimensions(held, warp)) return;
    const uint16_t* value = values(buffer) + warp * 16 + columns_place(lane, T::kStride);
    const uint16_t* weight = at<uint16_t>(P::kWeights) + tile_of<kApart>(thread / 32) * 8 * T::kWeightStride +
                             split_place(lane, T::kWeightStride, kQueries * T::kWeightStride);
    uint32_t a[2][Held<kEights, kApart>::kOutTiles][4];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int i = 0; i < held.kOutTiles; ++i)
        load_transposed(a[s][i], value + s * 16 * T::kStride + held.kSharing * 16 * i);
    }
    if constexpr (!kApart) rescale(lane, held);  // else a tile is a block of keys, before which is nothing
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        uint32_t b[4];
        load_matrices(b, weight + e * 8 * T::kWeightStride + s * 16);
#pragma unroll
        for (int i = 0; i < held.kOutTiles; ++i) mma(held.out[i][e], a[s][i], b[0], b[1]);
#pragma unroll
        for (int i = 0; i < held.kOutTiles; ++i) mma(held.out[i][e], a[s][i], b[2], b[3]);
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
      for (int i = 0; i < held.kOutTiles; ++i) {
        float(&to)[4] = held.out[i][e];
        to[0] *= factor.x;
        to[1] *= factor.y;
        to[2] *= factor.x;
        to[3] *= factor.y;
      }
    }
  }

  /// A block of keys ends, and the next one begins with nothing.
  template <int kEights, bool kApart>
  __device__ __forceinline__ void put_block(int thread, int block, Held<kEights, kApart>& held) {
    const int warp = own_warp<kApart>(thread / 32), lane = thread % 32;
    if (lane == 0 && warp < share_.queries)
      reinterpret_cast<float2*>(attend_.weights)[at<QuerySeen>(P::kSeen)[warp].place + block] =
          make_float2(weights_.most, weights_.total);
    weights_.begin();
    if (has_no_dimensions(held, warp)) return;
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
        for (int i = 0; i < held.kOutTiles; ++i) {
          to[held.kSharing * 16 * i] = held.out[i][e][c];
          to[held.kSharing * 16 * i + 8] = held.out[i][e][2 + c];
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

  KeyWeights weights_;  // of this warp's query
};

}  // namespace slip::backend::cuda
