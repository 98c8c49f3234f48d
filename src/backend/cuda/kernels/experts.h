// The mixture of experts around its matrices: choosing experts, and adding up what they gave.
#pragma once

#include "backend/cuda/kernels/rank.h"
#include "backend/cuda/kernels/stage.h"
#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {

/// The best of a warp's candidates, the lower index among equals, on every lane.
__device__ inline void best_of_warp(float& value, int& index) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const float other = shuffle_xor(value, mask);
    const int other_index = shuffle_xor(index, mask);
    if (other > value || (other == value && other_index < index)) {
      value = other;
      index = other_index;
    }
  }
}

/// The experts of a row, best first, the lower of equal ones first; kMostExperts where no score is left that
/// is a number. In a warp: lane l has choices l and l + 32.
struct ExpertChoices {
  static constexpr int kKept = kMaxChosen / 32;
  int expert[kKept];
  float score[kKept];
};

/// By a warp; lane l looks at experts l, l + 32, ..., kScores of them.
template <int kScores>
__device__ __forceinline__ ExpertChoices choose_experts(const float* scores, int experts, int chosen) {
  const int lane = thread_here() % 32;
  uint32_t ranks[kScores];
#pragma unroll
  for (int j = 0; j < kScores; ++j) {
    const int e = lane + 32 * j;
    ranks[j] = rank_of(e < experts ? load_fresh(scores + e) : -INFINITY);
  }
  ExpertChoices choices = {};
#pragma unroll 1
  for (int slot = 0; slot < chosen; ++slot) {
    uint32_t rank = 0;
#pragma unroll
    for (int j = 0; j < kScores; ++j) rank = max(rank, ranks[j]);
    rank = warp_max(rank);
    int expert = kMostExperts;  // the first that has it
#pragma unroll
    for (int j = kScores - 1; j >= 0; --j) {
      const uint32_t those = ballot(rank != 0 && ranks[j] == rank);
      if (those != 0) expert = 32 * j + first_bit(those);
    }
#pragma unroll
    for (int j = 0; j < kScores; ++j) {
      if (expert == lane + 32 * j) ranks[j] = 0;
    }
#pragma unroll
    for (int i = 0; i < ExpertChoices::kKept; ++i) {
      if (slot != lane + 32 * i) continue;
      choices.expert[i] = expert;
      choices.score[i] = rank == 0 ? -INFINITY : value_of_rank(rank);
    }
  }
  return choices;
}
/// Most models have 128.
__device__ __forceinline__ ExpertChoices choose_experts(const float* scores, int experts, int chosen) {
  return experts <= 128 ? choose_experts<4>(scores, experts, chosen)
                        : choose_experts<kMostExperts / 32>(scores, experts, chosen);
}

/// The part that each choice has in the row's sum, to `shares`, by the warp that chose.
__device__ __forceinline__ void leave_shares(const ExpertChoices& choices, int experts, int chosen,
                                             const float* expert_scale, float* shares) {
  const int lane = thread_here() % 32;
  const float highest = shuffle(choices.score[0], 0);
  float weights[ExpertChoices::kKept], total = 0;
#pragma unroll
  for (int i = 0; i < ExpertChoices::kKept; ++i) weights[i] = expf(choices.score[i] - highest);
#pragma unroll 1
  for (int slot = 0; slot < chosen; ++slot) total += shuffle(slot < 32 ? weights[0] : weights[1], slot % 32);
#pragma unroll
  for (int i = 0; i < ExpertChoices::kKept; ++i) {
    const int slot = lane + 32 * i, expert = min(choices.expert[i], experts - 1);
    if (slot < chosen) shares[slot] = weights[i] * __ldg(expert_scale + expert) / total;
  }
}

__device__ __forceinline__ float4 plus(const float4& x, const float4& y) {
  return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

/// What some experts gave of a row, under way, and the sum of the bunches before them.
template <int kTurns>
struct ExpertSum {
  static constexpr int kAtOnce = kTurns < 3 ? kBunch : kBunch / 2;
  float4 given[kAtOnce][kTurns], bunch[kTurns] = {}, sum[kTurns] = {};
  float share[kAtOnce];

  __device__ __forceinline__ void load(const Mixture& mixture, int row, int slot, int col, int cols) {
    const int first = row * mixture.chosen + slot;
    const float* out = mixture.out + static_cast<int64_t>(first) * mixture.stride;
    const float* shares = mixture.shares + row * mixture.shares_stride + slot;
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
      const bool wanted = slot + s < mixture.chosen;
      share[s] = wanted ? load_fresh(shares + s) : 0;
#pragma unroll
      for (int i = 0; i < kTurns; ++i)
        given[s][i] =
            read_four(out + s * static_cast<int>(mixture.stride), col + i * kTurnCols, cols, wanted);
    }
  }
  /// Those from `slot` on, the ones that were loaded.
  __device__ __forceinline__ void add(const Mixture& mixture, int slot) {
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const float4 &y = given[s][i], x = bunch[i];
        bunch[i] = make_float4(fmaf(share[s], y.x, x.x), fmaf(share[s], y.y, x.y), fmaf(share[s], y.z, x.z),
                               fmaf(share[s], y.w, x.w));
      }
    }
    const int next = slot + kAtOnce;
    if (kAtOnce < kBunch && next % kBunch != 0 && next < mixture.chosen) return;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      sum[i] = plus(sum[i], bunch[i]);
      bunch[i] = {};
    }
  }
  /// All but the last ones, which are under way; from which on those are.
  __device__ __forceinline__ int begin(const Mixture& mixture, int row, int col, int cols) {
    int slot = 0;
    load(mixture, row, slot, col, cols);
#pragma unroll 1
    for (; slot + kAtOnce < mixture.chosen; slot += kAtOnce) {
      add(mixture, slot);
      load(mixture, row, slot + kAtOnce, col, cols);
    }
    return slot;
  }
};

/// The same where bunches have been added up (Mixture::bunched).
template <int kTurns>
struct BunchSum {
  static constexpr int kAtOnce = 2;
  float4 given[kAtOnce][kTurns], sum[kTurns] = {};

  __device__ __forceinline__ void load(const Mixture& mixture, int bunch, int col, int cols) {
    const float* out = mixture.out + bunch * static_cast<int>(mixture.stride);
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
      const bool wanted = (bunch + s) * kBunch < mixture.chosen;
#pragma unroll
      for (int i = 0; i < kTurns; ++i)
        given[s][i] =
            read_four(out + s * static_cast<int>(mixture.stride), col + i * kTurnCols, cols, wanted);
    }
  }
  __device__ __forceinline__ void add(const Mixture&, int) {
#pragma unroll
    for (int s = 0; s < kAtOnce; ++s) {
#pragma unroll
      for (int i = 0; i < kTurns; ++i) sum[i] = plus(sum[i], given[s][i]);
    }
  }
  __device__ __forceinline__ int begin(const Mixture& mixture, int, int col, int cols) {
    int bunch = 0;
    load(mixture, bunch, col, cols);
#pragma unroll 1
    for (; (bunch + kAtOnce) * kBunch < mixture.chosen; bunch += kAtOnce) {
      add(mixture, bunch);
      load(mixture, bunch + kAtOnce, col, cols);
    }
    return bunch;
  }
};

/// The dense branch of a row, of which a thread has columns `col` and so on, becomes the mixture. By a block
/// of threads. `partial`: [2][kWarps], space for sums of squares. `Sum`: ExpertSum or BunchSum.
template <template <int> typename Sum, int kTurns>
__device__ __forceinline__ void mix_experts(const Mixture& mixture, int row, int col, int cols, float epsilon,
                                            float* partial, float4 (&dense)[kTurns]) {
  const int thread = thread_here();
  Sum<kTurns> experts;
  const int last = experts.begin(mixture, row, col, cols);
  // While the last experts come:
  float4 dense_weights[kTurns], expert_weights[kTurns];
  float dense_squares = 0, expert_squares = 0;
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    dense_weights[i] = read_weights(mixture.dense_norm, col + i * kTurnCols, cols);
    expert_weights[i] = read_weights(mixture.expert_norm, col + i * kTurnCols, cols);
    dense_squares = squares_of(dense[i], dense_squares);
  }
  dense_squares = warp_sum(dense_squares);
  experts.add(mixture, last);
#pragma unroll
  for (int i = 0; i < kTurns; ++i) expert_squares = squares_of(experts.sum[i], expert_squares);
  expert_squares = warp_sum(expert_squares);
  if (thread % 32 == 0) {
    *partial_of(partial, 0, thread / 32) = dense_squares;
    *partial_of(partial, 1, thread / 32) = expert_squares;
  }
  __syncthreads();
  const float f = row_factor(partial, 0, cols, epsilon), e = row_factor(partial, 1, cols, epsilon);
#pragma unroll
  for (int i = 0; i < kTurns; ++i) {
    const float4 &v = dense_weights[i], &w = expert_weights[i], x = dense[i], &y = experts.sum[i];
    dense[i] = make_float4(x.x * f * v.x + y.x * e * w.x, x.y * f * v.y + y.y * e * w.y,
                           x.z * f * v.z + y.z * e * w.z, x.w * f * v.w + y.w * e * w.w);
  }
}

/// One row by a block of threads.
__device__ inline void combine_row(const CombineJob& job, int row, int work) {
  const int col = thread_here() * 4;
  float* dense = job.dense + row * job.dense_stride;
  float4 mixed[kMostTurns];
#pragma unroll
  for (int i = 0; i < kMostTurns; ++i) mixed[i] = read_four(dense, col + i * kTurnCols, job.cols, true);
  mix_experts<ExpertSum>(job.mixture, row, col, job.cols, job.epsilon, shared_at<float>(work), mixed);
#pragma unroll
  for (int i = 0; i < kMostTurns; ++i) store_four(dense, col + i * kTurnCols, job.cols, mixed[i]);
  __syncthreads();
}

/// One block per row: thread t has scores t, t + 512, ...; each round takes the best that is left.
__device__ inline void choose_for_row(const ClusterJob& job, int row, int work) {
  auto* scores = reinterpret_cast<float*>((shared_memory() + work));
  auto* best = scores + job.clusters;               // [16]
  auto* where = reinterpret_cast<int*>(best + 16);  // [16]
  const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
  for (int i = thread; i < job.clusters; i += kBlockThreads)
    scores[i] = load_fresh(job.scores + row * job.stride + i);
  for (int round = 0; round < job.kept; ++round) {
    __syncthreads();
    float value = -INFINITY;
    int index = job.clusters;
    for (int i = thread; i < job.clusters; i += kBlockThreads) {
      if (scores[i] > value) {
        value = scores[i];
        index = i;
      }
    }
    best_of_warp(value, index);
    if (lane == 0) {
      best[warp] = value;
      where[warp] = index;
    }
    __syncthreads();
    if (thread == 0) {
      for (int w = 1; w < kBlockThreads / 32; ++w) {
        if (best[w] > best[0] || (best[w] == best[0] && where[w] < where[0])) {
          best[0] = best[w];
          where[0] = where[w];
        }
      }
      if (where[0] < job.clusters) scores[where[0]] = NAN;  // chosen: greater than nothing
    }
  }
  __syncthreads();
  if (thread == 0) {
    int count = 0;
    for (int i = 0; i < job.clusters && count < job.kept; ++i) {
      if (scores[i] == scores[i]) continue;
      const int at = row * job.kept + count;
      job.list->matrix[at] = i;
      for (int n = 0; n < kMaxRows; ++n) job.list->slot[at][n] = n == row ? count : -1;
      ++count;
    }
    if (row == 0) job.list->count = job.rows * job.kept;
  }
  __syncthreads();
}
__device__ inline void choose_clusters(const ClusterJob& job, int work) {
  for (int row = static_cast<int>(blockIdx.x); row < job.rows; row += static_cast<int>(gridDim.x))
    choose_for_row(job, row, work);
}

}  // namespace slip::backend::cuda
