// The mixture of experts around its matrices: choosing experts, and adding up what they gave.
#pragma once

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
  best_of_warp(best.score, best.expert);
#pragma unroll
  for (int j = 0; j < kScoresPerLane; ++j) {
    if (lane + 32 * j == best.expert) scores[j] = -INFINITY;
  }
  return best;
}

/// By one block: warp n chooses for row n. Then thread e lists who chose expert e.
__device__ inline void route(const RouteJob& job, int work) {
  const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
  auto* slots = reinterpret_cast<int*>((shared_memory() + work));  // [experts][kMaxRows]
  for (int i = thread; i < job.experts * kMaxRows; i += kBlockThreads) slots[i] = -1;
  __syncthreads();
  if (warp < job.rows) {
    float scores[kScoresPerLane];
#pragma unroll
    for (int j = 0; j < kScoresPerLane; ++j) {
      const int e = lane + 32 * j;
      scores[j] = e < job.experts ? load_fresh(job.scores + warp * job.stride + e) : -INFINITY;
    }
    float highest = 0, total = 0;
    for (int slot = 0; slot < job.chosen; ++slot) {
      const auto [score, index] = take_best(scores, lane);
      if (slot == 0) highest = score;
      const float weight = expf(score - highest);
      total += weight;
      if (lane == 0 && index < job.experts) {
        slots[index * kMaxRows + warp] = slot;
        job.list->share[warp][slot] = weight * __ldg(job.expert_scale + index);
      }
    }
    __syncwarp();
    for (int slot = lane; slot < job.chosen; slot += 32) job.list->share[warp][slot] /= total;
  }
  __syncthreads();
  const int e = thread;
  const auto chosen = [&](int expert) {
    for (int n = 0; n < job.rows; ++n) {
      if (slots[expert * kMaxRows + n] >= 0) return true;
    }
    return false;
  };
  auto* active = slots + job.experts * kMaxRows;
  if (e < job.experts) active[e] = chosen(e) ? 1 : 0;
  __syncthreads();
  if (e < job.experts) {
    int before = 0;
    for (int other = 0; other < e; ++other) before += active[other];
    if (active[e] == 1) {
      job.list->matrix[before] = e;
      for (int n = 0; n < kMaxRows; ++n) job.list->slot[before][n] = slots[e * kMaxRows + n];
    }
    if (e == job.experts - 1) job.list->count = before + active[e];
  }
}

inline constexpr int kCombineTurns = 3;  // of four columns a thread: rows of up to 6144

/// One row by a block of threads, all of it under way at once.
__device__ inline void combine_row(const CombineJob& job, const float* row_shares, int row, int work) {
  const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
  auto* partial = shared_at<float>(work);  // [2][16]
  float* shares = partial + 32;            // [kMaxChosen]
  for (int slot = thread; slot < job.chosen; slot += kBlockThreads)
    shares[slot] = load_fresh(row_shares + slot);
  __syncthreads();
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
    const float share = shares[slot];
#pragma unroll
    for (int i = 0; i < kCombineTurns; ++i) {
      const float4 y = read_four(out, col_of(i), job.cols, true);
      sum[i] = make_float4(fmaf(share, y.x, sum[i].x), fmaf(share, y.y, sum[i].y), fmaf(share, y.z, sum[i].z),
                           fmaf(share, y.w, sum[i].w));
    }
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
    const float4 v = read_weights(job.dense_norm, col, job.cols),
                 w = read_weights(job.expert_norm, col, job.cols);
    const float4 &x = one[i], &y = sum[i];
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
