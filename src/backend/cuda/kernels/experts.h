// The mixture of experts around its matrices: choosing experts, and adding up what they gave.
#pragma once

#include "backend/cuda/kernels/rank.h"
#include "backend/cuda/kernels/stage.h"
#include "backend/cuda/kernels/step.h"

namespace slip::backend::cuda {

inline constexpr int kMostExperts = 256;
inline constexpr int kScoresPerLane = kMostExperts / 32;

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

/// The best expert of a row that is left, on every lane of its warp, and takes it away; kMostExperts where no
/// score is a number. Lane l has experts l, l + 32, ...
struct ExpertChoice {
  float score = -INFINITY;
  int expert = kMostExperts;
};
__device__ __forceinline__ ExpertChoice take_best(float (&scores)[kScoresPerLane], int lane) {
  ExpertChoice best;
#pragma unroll
  for (int j = 0; j < kScoresPerLane; ++j) {
    if (scores[j] > best.score) best = {scores[j], lane + 32 * j};
  }
  uint32_t rank = rank_of(best.score);
  best_of_ranks(rank, best.expert);
  best.score = rank == 0 ? -INFINITY : value_of_rank(rank);
#pragma unroll
  for (int j = 0; j < kScoresPerLane; ++j) {
    if (lane + 32 * j == best.expert) scores[j] = -INFINITY;
  }
  return best;
}

/// The experts of row `row`, by a warp: their shares to the list, and which choice they are to `slots`.
__device__ __forceinline__ void choose_experts(const RouteJob& job, int row, int* slots) {
  const int lane = thread_here() % 32;
  float scores[kScoresPerLane];
#pragma unroll
  for (int j = 0; j < kScoresPerLane; ++j) {
    const int e = lane + 32 * j;
    scores[j] = e < job.experts ? load_fresh(job.scores + row * job.stride + e) : -INFINITY;
  }
  // Lane l keeps choices l and l + 32.
  float highest = 0, total = 0, weights[kMaxChosen / 32] = {};
  int experts[kMaxChosen / 32] = {};
#pragma unroll 1
  for (int slot = 0; slot < job.chosen; ++slot) {
    const auto [score, index] = take_best(scores, lane);
    if (slot == 0) highest = score;
    const float weight = expf(score - highest);
    total += weight;
#pragma unroll
    for (int i = 0; i < kMaxChosen / 32; ++i) {
      if (lane + 32 * i != slot) continue;
      weights[i] = weight;
      experts[i] = index;
    }
  }
#pragma unroll
  for (int i = 0; i < kMaxChosen / 32; ++i) {
    const int slot = lane + 32 * i;
    if (slot >= job.chosen || experts[i] >= job.experts) continue;
    slots[experts[i] * kMaxRows + row] = slot;
    job.list->share[row][slot] = weights[i] * __ldg(job.expert_scale + experts[i]) / total;
  }
}

/// By one block: warp n chooses for row n. Then thread e lists who chose expert e.
__device__ inline void route(const RouteJob& job, int work) {
  const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
  auto* slots = reinterpret_cast<int*>((shared_memory() + work));  // [experts][kMaxRows]
  auto* counts = slots + job.experts * kMaxRows;                   // [kWarps]
  for (int i = thread; i < job.experts * kMaxRows; i += kBlockThreads) slots[i] = -1;
  __syncthreads();
  if (warp < job.rows) choose_experts(job, warp, slots);
  __syncthreads();
  bool chosen = false;
  if (thread < job.experts) {
    for (int n = 0; n < job.rows; ++n) chosen |= slots[thread * kMaxRows + n] >= 0;
  }
  const uint32_t choosers = ballot(chosen);
  if (lane == 0) counts[warp] = bit_count(choosers);
  __syncthreads();
  int before = 0, all = 0;
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) before += counts[w];
    all += counts[w];
  }
  before += bit_count(choosers & ((1u << lane) - 1));
  if (chosen) {
    job.list->matrix[before] = thread;
    for (int n = 0; n < kMaxRows; ++n) job.list->slot[before][n] = slots[thread * kMaxRows + n];
  }
  if (thread == 0) job.list->count = all;
}

inline constexpr int kCombineTurns = 3;  // of four columns a thread: rows of up to 6144

/// One row by a block of threads, all of it under way at once.
__device__ inline void combine_row(const CombineJob& job, const float* row_shares, int row, int work) {
  const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
  auto* partial = shared_at<float>(work);  // [2][16]
  float* dense = job.dense + row * job.dense_stride;
  float4 one[kCombineTurns], sum[kCombineTurns];
  const auto col_of = [&](int turn) { return (turn * kBlockThreads + thread) * 4; };
#pragma unroll
  for (int i = 0; i < kCombineTurns; ++i) {
    one[i] = read_four(dense, col_of(i), job.cols, true);
    sum[i] = make_float4(0, 0, 0, 0);
  }
#pragma unroll 4
  for (int slot = 0; slot < job.chosen; ++slot) {
    const float* out = job.out + (static_cast<int64_t>(row) * job.chosen + slot) * job.out_stride;
    const float share = load_fresh(row_shares + slot);
#pragma unroll
    for (int i = 0; i < kCombineTurns; ++i) {
      const float4 y = read_four(out, col_of(i), job.cols, true);
      sum[i] = make_float4(fmaf(share, y.x, sum[i].x), fmaf(share, y.y, sum[i].y), fmaf(share, y.z, sum[i].z),
                           fmaf(share, y.w, sum[i].w));
    }
  }
  float4 dense_weights[kCombineTurns], expert_weights[kCombineTurns];
#pragma unroll
  for (int i = 0; i < kCombineTurns; ++i) {
    dense_weights[i] = read_weights(job.dense_norm, col_of(i), job.cols);
    expert_weights[i] = read_weights(job.expert_norm, col_of(i), job.cols);
  }
  float dense_squares = 0, expert_squares = 0;
#pragma unroll
  for (int i = 0; i < kCombineTurns; ++i) {
    dense_squares = squares_of(one[i], dense_squares);
    expert_squares = squares_of(sum[i], expert_squares);
  }
  dense_squares = warp_sum(dense_squares);
  expert_squares = warp_sum(expert_squares);
  if (lane == 0) {
    partial[warp] = dense_squares;
    partial[kWarps + warp] = expert_squares;
  }
  __syncthreads();
  const auto factor = [&](const float* parts) {
    float squares = 0;
    for (int w = 0; w < kWarps; ++w) squares += parts[w];
    return 1.0f / sqrtf(squares / static_cast<float>(job.cols) + job.epsilon);
  };
  const float f = factor(partial), e = factor(partial + kWarps);
#pragma unroll
  for (int i = 0; i < kCombineTurns; ++i) {
    const int col = col_of(i);
    const float4 &v = dense_weights[i], &w = expert_weights[i], &x = one[i], &y = sum[i];
    store_four(dense, col, job.cols,
               make_float4(x.x * f * v.x + y.x * e * w.x, x.y * f * v.y + y.y * e * w.y,
                           x.z * f * v.z + y.z * e * w.z, x.w * f * v.w + y.w * e * w.w));
  }
  __syncthreads();
}
__device__ inline void combine(const CombineJob& job, int work) {
  for (int row = static_cast<int>(blockIdx.x); row < job.rows; row += static_cast<int>(gridDim.x))
    combine_row(job, job.list->share[row], row, work);
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
