// Twins: two blocks of threads that share the tiles of a product of several rows, each with half of the
// columns. What several rows cost is their staging, which every block does for itself (stage.h): a twin
// stages half of it, and has room for twice the rows, so that 31B's weights are read once for eight rows and
// not twice. They are a cluster, so each can read the other's shared memory: where a block alone would meet
// to add up the parts of a tile, twins meet, and each finishes half of the rows of every tile from the parts
// of both. The parts and their order are those of a block alone, and so are the bits. The squares of a normed
// row must be known from a phase of its own (Input::squares), since neither twin sees all of it.
#pragma once

#include "backend/cuda/kernels/results.h"

namespace slip::backend::cuda {

#ifndef SLIP_CUDA_EMULATED

/// Waits for the other twin: what both wrote to shared memory before can be read after. All threads of both.
__device__ __forceinline__ void meet_twin() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
/// A place in the shared memory of twin `which`, 0 or 1.
__device__ __forceinline__ const float* twin_floats(int which, int place) {
#if __CUDA_ARCH__ >= 900
  const float* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared_at<const float>(place)), "r"(which));
  return there;
#else
  return which >= 0 ? shared_at<const float>(place) : nullptr;  // there are no twins
#endif
}

#else

__device__ __forceinline__ void meet_twin() {
  emulator::sync_twins();
}
__device__ __forceinline__ const float* twin_floats(int which, int place) {
  return reinterpret_cast<const float*>(emulator::twin_memory(which) + place);
}

#endif

/// The parts of both twins, in their order, as sum_parts() adds those of one block; all are under way before
/// the first is added.
__device__ __forceinline__ float sum_twin_parts(int place, int parts, int stride) {
  constexpr int kMost = kWarps / 2;
  float part[2][kMost];
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    const float* from = twin_floats(which, place);
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (i < parts) part[which][i] = from[i * stride];
    }
  }
  float sum = part[0][0];
#pragma unroll
  for (int which = 0; which < 2; ++which) {
#pragma unroll
    for (int i = which == 0 ? 1 : 0; i < kMost; ++i) {
      if (i < parts) sum += part[which][i];
    }
  }
  return sum;
}

/// 1 / rms of row `row` of the step.
__device__ __forceinline__ float twin_factor(const Input& in, int row) {
  float4 part[kWarps / 4];
#pragma unroll
  for (int w = 0; w < kWarps / 4; ++w)
    part[w] = load_fresh(reinterpret_cast<const float4*>(in.squares + row * kWarps) + w);
  return norm_factor(sum_of_warps(part), in.all_cols, in.epsilon);
}

/// The results that are this twin's of rounds `first` .. `end` - 1 of a turn's tiles, whose sums both leave
/// before they meet here. As finish_rounds().
__device__ __forceinline__ void finish_twin(const SharedPlan& plan, const Segment& segment,
                                            const TileTurn& turn, int first, int end, int sums, int kind) {
  const int rows_log = segment.space.rows_log, thread = thread_here(), n = thread & ((1 << rows_log) - 1),
            own = thread >> rows_log, row = turn.first_row + n;
  const int half_log = results_log_of(segment) - 1;  // of a tile, a twin's
  const int results = (end - first) << (segment.slots_log + half_log);
  const auto find = [&](int i) {
    if (i >= results || n >= turn.rows) return Result();
    const int of_tile = segment.twin << half_log | (i & ((1 << half_log) - 1));
    const int8_t* chosen = nullptr;
    Result result =
        locate_result(plan, segment, turn, first, sums, n, i >> half_log << (half_log + 1) | of_tile, chosen);
    if (result.parts >= 0) find_target(segment, nullptr, row, result);
    return result;
  };
  Result result = find(own);
  const float factor = segment.normed && n < turn.rows ? twin_factor(segment.in, row) : 1;
  meet_twin();
  const int parts = 1 << segment.parts_log, stride = 16 << rows_log;
#pragma unroll 1
  for (int i = own; i < results; i += kBlockThreads >> rows_log) {
    if (i != own) result = find(i);
    if (result.parts < 0) continue;
    const float y = sum_twin_parts(result.parts, parts, stride) * factor;
    float up = 0;
    if (segment.matrix.pair) up = sum_twin_parts(result.parts + kWarps * stride * 4, parts, stride) * factor;
    put(segment, result, row, y, up);
  }
  if ((kind & Duty::kKeeps) == 0 || uniform(first) != 0) return;
  for (int kept = turn.first_row; kept < turn.first_row + turn.rows; ++kept)
    scale_kept(segment, kept, twin_factor(segment.in, kept));
}

}  // namespace slip::backend::cuda
