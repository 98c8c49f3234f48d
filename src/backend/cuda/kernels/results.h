// What becomes of the sums that the warps of a block have left in shared memory: results of a product, each
// by one thread, which adds up the parts in their order. Where they come from and go to is looked up before
// the barrier behind which the sums are there.
#pragma once

#include <bit>

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/turn.h"

namespace slip::backend::cuda {

/// One result of a tile, row `row` of the matrix: where it goes, what it is multiplied with if not its pair.
struct Result {
  int parts = -1;  // in shared memory; -1 = there is none
  int row = 0;
  float* to = nullptr;  // but of logits: see put_logit()
  float other = 0;
};

/// Where result `row` of the step's row n goes. `chosen`: of a stack, the slots of its rows.
__device__ __forceinline__ void find_target(const Segment& segment, const int8_t* chosen, int n,
                                            Result& result) {
  int to = n;
  if (chosen != nullptr) {
    const int slot = chosen[n];
    if (slot < 0) {
      result.parts = -1;
      return;
    }
    to = n * segment.out_slots + slot;
  }
  result.to = segment.out + to * segment.out_stride + result.row;
  if (segment.epilogue == Epilogue::kGeluTimes)
    result.other = load_fresh(segment.other + n * static_cast<int>(segment.other_stride) + result.row);
}

__device__ __forceinline__ void put_logit(const Segment& segment, int row, int n, float y) {
  const int to = load_fresh(segment.out_rows + n);
  if (to == kNowhere) return;
  if (segment.softcap > 0) y = segment.softcap * tanhf(y / segment.softcap);
  if (to == kToPick) {
    segment.stay[n * static_cast<int>(segment.stay_stride) + row] = y;
  } else {
    segment.out[to * segment.out_stride + row] = y;
  }
}

/// `up`: of a pair.
__device__ __forceinline__ void put(const Segment& segment, const Result& result, int n, float y, float up) {
  const Epilogue epilogue = segment.epilogue;
  if (epilogue == Epilogue::kLogits) return put_logit(segment, result.row, n, y);
  if (epilogue != Epilogue::kStore) {
    const bool gated = epilogue == Epilogue::kGated;
    y = activate(y, gated ? segment.activation : model::Activation::kGeluTanh) * (gated ? up : result.other);
  }
  *result.to = y;
}

/// The sum of up to 16 parts, in their order; eight of them are under way before the first is added.
__device__ __forceinline__ float sum_parts(const float* from, int parts, int stride) {
  constexpr int kAtOnce = 8;
  float sum = 0;
#pragma unroll
  for (int first = 0; first < kWarps; first += kAtOnce) {
    if (first > 0 && parts <= first) break;
    float part[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (parts > static_cast<int>(std::bit_floor(static_cast<unsigned>(i))))
        part[i] = from[(first + i) * stride];
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i == 0) {
        sum = part[0];
      } else if (parts > static_cast<int>(std::bit_floor(static_cast<unsigned>(i)))) {
        sum += part[i];
      }
    }
  }
  return sum;
}

/// Of a tile, of one row.
__host__ __device__ constexpr int results_log_of(const Segment& segment) {
  return segment.matrix.subtiles == 1 || segment.matrix.pair ? 4 : 5;
}

/// Result i of some rounds of a turn's tiles, from round `first` on, of row n of the turn, but for where it
/// goes. `chosen`: of a stack, the slots of its rows.
__device__ __forceinline__ Result locate_result(const SharedPlan& plan, const Segment& segment,
                                                const TileTurn& turn, int first, int sums, int n, int i,
                                                const int8_t*& chosen) {
  const PackedMatrix& matrix = segment.matrix;
  const int rows_log = segment.space.rows_log, subtiles = matrix.subtiles,
            results_log = results_log_of(segment);
  const int parts_log = segment.parts_log, slots_log = segment.slots_log;
  Result result;
  const int r = i & ((1 << results_log) - 1), slot = i >> results_log & ((1 << slots_log) - 1),
            round = i >> (results_log + slots_log);
  const WarpShare own = warp_share(segment, slot << parts_log, turn.run.count);
  if (first + round >= own.count) return result;
  int tile = turn.run.tile + own.first + first + round;
  if (matrix.count > 1) {
    chosen = shared_at<const int8_t>(plan.chosen) + turn.run.listed * kMaxRows;
    for (; tile >= matrix.tiles; tile -= matrix.tiles) chosen += kMaxRows;
  }
  result.row = (tile << results_log) + r;
  if (result.row >= matrix.rows) return result;
  const int part = (round * subtiles + r / 16) * kWarps + (slot << parts_log);
  result.parts = sums + (((part << rows_log) + n) * 16 + r % 16) * 4;
  return result;
}
/// The same of `results`, with where it goes.
__device__ __forceinline__ Result find_result(const SharedPlan& plan, const Segment& segment,
                                              const TileTurn& turn, int first, int sums, int n, int i,
                                              int results) {
  if (i >= results || n >= turn.rows) return {};
  const int8_t* chosen = nullptr;
  Result result = locate_result(plan, segment, turn, first, sums, n, i, chosen);
  if (result.parts >= 0) find_target(segment, chosen, turn.first_row + n, result);
  return result;
}

/// The sums of a tile's warps, in the order of the parts. `factor`: of the row.
__device__ __forceinline__ void finish_result(const Segment& segment, const Result& result, int rows_log,
                                              int n, float factor) {
  const int parts = 1 << segment.parts_log, warp_floats = 16 << rows_log;
  const auto* from = shared_at<const float>(result.parts);
  const float y = sum_parts(from, parts, warp_floats) * factor;
  float up = 0;
  if (segment.matrix.pair) up = sum_parts(from + kWarps * warp_floats, parts, warp_floats) * factor;
  put(segment, result, n, y, up);
}

/// Of the slots of 16 rows, a byte each, which rows have one.
__device__ __forceinline__ uint32_t rows_that_chose(const int8_t* chosen) {
  const uint4 slots = *reinterpret_cast<const uint4*>(chosen);
  const auto four = [](uint32_t bytes) {  // the signs of four bytes, side by side
    return ((~bytes >> 7 & 0x01010101u) * 0x00204081u) >> 21 & 15u;
  };
  return four(slots.x) | four(slots.y) << 4 | four(slots.z) << 8 | four(slots.w) << 12;
}

}  // namespace slip::backend::cuda
