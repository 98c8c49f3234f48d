// A draw from a list of the best tokens: what sample/sampler.h gives for a request that neither penalises nor
// biases, computed alike (weights to the bit; logarithms by the device's own function). The host draws every
// guess again from the same list and stops using a chain where it has another token, so a difference here
// costs time and cannot be seen.
//
// One thread per token of the sorted list; sums and comparisons over the list go token by token from shared
// memory, at most 128 of them.
#pragma once

#include <cmath>

#include "backend/cuda/kernels/chain.h"
#include "backend/cuda/kernels/device.h"
#include "base/exponential.h"
#include "base/noise.h"
#include "base/scores.h"

namespace slip::backend::cuda {

struct DrawSpace {
  Drawing rule;
  double weights[kMostCandidates], scores[kMostCandidates];
  Candidate sorted[kMostCandidates];
  uint32_t possible[kMostCandidates / 32];  // a bit for every token that is not suppressed
  float highest;                            // of their values
  int drawn;
};

/// e^x for x <= 0, as the host's sampler has it (sample/weight.h).
__device__ inline float weight_of(float x) {
  return exp_nonpositive<uint32_t>(x > -87.0f ? x : -87.0f);
}

__device__ inline double gumbel_of(uint64_t key, int id) {
  return -log(-log(keyed_uniform(key, static_cast<uint64_t>(id))));
}

__device__ inline bool is_suppressed(const Drawing& rule, int id) {
  for (int i = 0; i < rule.suppressed_count; ++i) {
    if (rule.suppressed[i] == id) return true;
  }
  return false;
}

/// Of the tokens that can be drawn, the best first, which one this thread has; -1 = none. By all threads.
__device__ inline int place_of(DrawSpace& space, bool listed, const Candidate& own) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const bool possible = listed && !is_suppressed(space.rule, own.id);
  const uint32_t bits = ballot(possible);
  if (lane == 0 && warp < kMostCandidates / 32) space.possible[warp] = bits;
  __syncthreads();
  int place = bit_count(bits & ((1u << lane) - 1));
  for (int w = 0; w < min(warp, kMostCandidates / 32); ++w) place += bit_count(space.possible[w]);
  if (possible && place == 0) space.highest = own.value;
  __syncthreads();
  return possible ? place : -1;
}

/// Whether the tokens before this one weigh less than top_p of all.
__device__ inline bool within_top_p(const DrawSpace& space, int count) {
  double before = 0, all = 0;
#pragma unroll 8
  for (int i = 0; i < count; ++i) {
    if (i == static_cast<int>(threadIdx.x)) before = all;
    all += space.weights[i];  // exact, so any order will do
  }
  return before < space.rule.top_p * all;
}

/// Of a row's best tokens, to space.drawn; `turn`: which guess of the chain. By all threads.
__device__ inline void draw_token(const BestTokens& best, const Drawing& row_rule, int turn,
                                  DrawSpace& space) {
  const int thread = static_cast<int>(threadIdx.x);
  static_assert(sizeof(Drawing) % 16 == 0 && sizeof(Candidate) == sizeof(float2));
  if (thread < static_cast<int>(sizeof(Drawing) / 16)) {
    reinterpret_cast<uint4*>(&space.rule)[thread] =
        load_fresh(reinterpret_cast<const uint4*>(&row_rule) + thread);
  }
  const int count = load_fresh(&best.count);
  Candidate own;
  if (thread < kMostCandidates) {  // whether there are so many or not, to wait for memory once
    const float2 words = load_fresh(reinterpret_cast<const float2*>(best.tokens) + thread);
    own = space.sorted[thread] = {words.x, static_cast<int>(__float_as_uint(words.y))};
  }
  const bool listed = thread < count;
  if (thread == 0) space.drawn = 0;
  __syncthreads();
  const Drawing& rule = space.rule;
  const int place = place_of(space, listed, own);
  bool kept = place >= 0 && place < rule.top_k;
  if (rule.top_p < 1) {
    if (listed) {
      const double weight = weight_of((own.value - space.highest) * rule.scale);
      space.weights[thread] = kept ? (weight + rule.quantum) - rule.quantum : 0;
    }
    __syncthreads();
    kept = kept && (place == 0 || within_top_p(space, count));
  }
  const double x = kept ? (static_cast<double>(own.value) - space.highest) * rule.inverse_temperature : 0;
  kept = kept && x >= rule.lowest_x;
  const uint64_t key = noise_key(rule.seed, static_cast<uint64_t>(rule.position + turn));
  const double score = kept ? x + gumbel_of(key, own.id) : -INFINITY;
  if (listed) space.scores[thread] = score;
  __syncthreads();
#pragma unroll 8
  for (int i = 0; i < count; ++i) {
    const double other = space.scores[i];
    kept = kept && (other < score || (other == score && space.sorted[i].id >= own.id));
  }
  if (kept) space.drawn = own.id;
  __syncthreads();
}

}  // namespace slip::backend::cuda
