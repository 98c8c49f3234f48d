// Staging of a single row (see stage.h), the case of plain decoding, which is all about waiting: what the
// row's input consists of is known when the kernel is compiled, all of it is under way before any of it is
// used, and stays in registers. The same sums in the same order as the Stager's.
#pragma once

#include "backend/cuda/kernels/meeting.h"

namespace slip::backend::cuda {

inline constexpr int kMostTurns = 3;  // of four columns a thread

/// Ways to stage a row, as Segment::staging: which of them it is, times four, plus the turns. 0 = none fits.
__host__ __device__ constexpr int staging(bool branch, bool normed, int turns) {
  return (branch ? 8 : 0) + (normed ? 4 : 0) + turns;
}
/// The one that fits a segment.
__host__ inline int staging_of(const Segment& segment) {
  const Input& in = segment.in;
  const bool branch = in.branch != nullptr;
  const int turns = (segment.matrix.padded_cols() + kTurnCols - 1) / kTurnCols;
  if (in.rows == nullptr || turns > kMostTurns) return 0;
  if (branch && (in.branch_norm == nullptr || in.branch_parts > kMaxSlices)) return 0;
  if (segment.normed && segment.norm == nullptr) return 0;
  return staging(branch, segment.normed, turns);
}

template <int kTurns>
__device__ __forceinline__ void read_turns(float4 (&out)[kTurns], const float* row, int col, int cols,
                                           bool wanted) {
#pragma unroll
  for (int i = 0; i < kTurns; ++i) out[i] = read_four(row, col + i * kTurnCols, cols, wanted);
}

template <int kTurns, bool kBranch, bool kNormed>
struct OneRow {
  using Four = float4[kTurns];
  const Segment& segment;
  const Stage& stage;
  float* partial;  // as the Stager's
  const int thread = thread_here(), col = 4 * thread, cols = segment.in.cols;
  Four x = {}, weights = {}, branch = {}, branch_weights = {};

  /// `source`: of the input, its row; -1 = zeros. `now`: the phase, if the others have not been met yet; what
  /// does not depend on them is read before that.
  __device__ __forceinline__ void run(const StepArguments& step, int now, int source, int row, bool keeps) {
    const Input& in = segment.in;
    load_weights();
    const float* from = in.rows + source * static_cast<int>(in.stride);
    if (now >= 0) meet(step, now);
    read_turns(x, from, col, cols, source >= 0);
    if constexpr (kBranch) {
      load_branch(row);
      add_branch();
    }
    if (keeps) {
      keep(in.keep, in.keep_stride, row);
      keep(in.tap, in.tap_stride, row);
    }
    if constexpr (kNormed) {
      const float squares = warp_sum(squares_of_all(x));
      weigh();
      if (keeps) keep(segment.keep_normed, segment.keep_normed_stride, row);
      if (thread % 32 == 0) *partial_of(partial + kWarps * kMaxRows, 0, thread / 32) = squares;
    }
    put();
  }

 private:
  __device__ __forceinline__ void load_branch(int row) {
    const Input& in = segment.in;
    const float* from = in.branch + row * static_cast<int>(in.branch_stride);
    read_turns(branch, from, col, cols, true);
    const int parts = uniform(in.branch_parts);
    // As many at a time as registers hold.
    constexpr int kAtOnce = kTurns == 3 ? 1 : kMaxSlices - 1;
#pragma unroll 1
    for (int first = 1; first < parts; first += kAtOnce) {
      Four more[kAtOnce];
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p)
        read_turns(more[p], from + (first + p) * in.part_stride, col, cols, first + p < parts);
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (first + p >= parts) break;
#pragma unroll
        for (int i = 0; i < kTurns; ++i) {
          const float4 &add = more[p][i], sum = branch[i];
          branch[i] = make_float4(sum.x + add.x, sum.y + add.y, sum.z + add.z, sum.w + add.w);
        }
      }
    }
  }
  __device__ __forceinline__ void load_weights() {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if constexpr (kBranch)
        branch_weights[i] = read_weights(segment.in.branch_norm, col + i * kTurnCols, cols);
      if constexpr (kNormed) weights[i] = read_weights(segment.norm, col + i * kTurnCols, cols);
    }
  }
  __device__ static __forceinline__ float squares_of_all(const Four& values) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) sum = squares_of(values[i], sum);
    return sum;
  }
  __device__ __forceinline__ void add_branch() {
    const float squares = warp_sum(squares_of_all(branch));
    if (thread % 32 == 0) *partial_of(partial, 0, thread / 32) = squares;
    __syncthreads();
    const float scale = row_factor(partial, 0, cols, segment.in.epsilon), scalar = segment.in.scalar;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const float4 &b = branch[i], &weight = branch_weights[i], &to = x[i];
      x[i] = make_float4((to.x + b.x * scale * weight.x) * scalar, (to.y + b.y * scale * weight.y) * scalar,
                         (to.z + b.z * scale * weight.z) * scalar, (to.w + b.w * scale * weight.w) * scalar);
    }
  }
  __device__ __forceinline__ void weigh() {
    const float scale = segment.norm_scale;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const float4& weight = weights[i];
      x[i] = make_float4(x[i].x * weight.x * scale, x[i].y * weight.y * scale, x[i].z * weight.z * scale,
                         x[i].w * weight.w * scale);
    }
  }
  __device__ __forceinline__ void keep(float* to, int64_t stride, int row) const {
    if (to == nullptr) return;
#pragma unroll
    for (int i = 0; i < kTurns; ++i)
      store_four(to + row * static_cast<int>(stride), col + i * kTurnCols, cols, x[i]);
  }

  __device__ __forceinline__ void put() const {
    const PackedMatrix& matrix = segment.matrix;
    const int padded = matrix.padded_cols(), groups = uniform(matrix.groups);
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const int at = col + i * kTurnCols;
      if (at - thread % 32 * 4 >= padded) break;  // the same for a whole warp
      GroupSums sums = put_four<1>(stage, at, 0, x[i], at < padded);
      if (groups == 0) continue;
#pragma unroll
      for (int mask = 1; mask < 8; mask *= 2)
        sums = {sums.high + shuffle_xor(sums.high, mask), sums.low + shuffle_xor(sums.low, mask)};
      if (groups == 1) sums = {sums.high + shuffle_xor(sums.high, 8), sums.low + shuffle_xor(sums.low, 8)};
      if (at < padded) put_sums(at, groups, matrix.format, sums);
    }
  }
  /// What put_group() does, by as many of a group's threads as it has numbers: all have its sums.
  __device__ __forceinline__ void put_sums(int at, int groups, Format format, GroupSums sums) const {
    const bool four_bits = format == Format::kAffine4;
    const int own = groups == 1 ? thread % 16 : thread % 8, group = groups == 1 ? at / 64 : at / 32;
    const int in_piece = groups * (four_bits ? 2 : 1), in_piece_log = groups - 1 + (four_bits ? 1 : 0);
    const float offset = -code_offset(format);
    if (own < 4)
      shared_at<float>(stage.starts)[group * 16 + own % 2 * 2 + own / 2 * 8] =
          offset * (own < 2 ? sums.high : sums.low);
    const Split total = split_bf16(sums.high + sums.low, 0);
    const int in = group & (in_piece - 1);
    auto* halves = shared_at<uint16_t>(stage.biases) + (group >> in_piece_log) * 32;
    if (own < 2) halves[in + own * in_piece] = static_cast<uint16_t>(own == 0 ? total.high : total.low);
    if (in == 0 && own >= 4 + in_piece && own > 4 && own < 8)
      reinterpret_cast<uint32_t*>(halves)[own - 4] = 0;
  }
};

/// Way `way` to stage row `row` of the step.
template <int kWay = staging(true, true, kMostTurns)>
__device__ __forceinline__ void stage_one(const StepArguments& step, int now, int way, const Segment& segment,
                                          int source, int row, bool keeps, const Stage& stage,
                                          float* partial) {
  if constexpr (kWay > 0) {
    if (way == kWay) {
      if constexpr (kWay % 4 > 0) {
        OneRow<kWay % 4, (kWay & 8) != 0, (kWay & 4) != 0> one{segment, stage, partial};
        one.run(step, now, source, row, keeps);
      }
      return;
    }
    stage_one<kWay - 1>(step, now, way, segment, source, row, keeps, stage, partial);
  }
}

/// Any number of rows of any input. Not inlined: it would take registers from the single row.
template <int kTiles>
__device__ __noinline__ void stage_any(int segment_place, const int8_t* chosen, StagedRows rows, bool keeps,
                                       Stage stage, float* partial) {
  const Segment& segment = *shared_at<const Segment>(segment_place);
  Stager<kTiles, 4, 1> stager{segment, chosen, rows, stage, keeps, partial};
  if (stager.at_once()) {
    stager.run_once();
  } else {
    stager.run_blocks();
  }
}

/// All threads of the block; the rows are there after the next barrier of the block. `now`: the phase, if the
/// other blocks have not been met yet, else -1.
template <int kTiles>
__device__ __forceinline__ void stage_rows(const StepArguments& step, int now, int segment_place,
                                           const StagedRows& rows) {
  const SharedPlan& plan = step.plan;
  const Segment& segment = *shared_at<const Segment>(segment_place);
  const auto* chosen = shared_at<const int8_t>(plan.chosen);
  auto* partial = shared_at<float>(plan.partial);
  const Stage stage{plan.work, segment.starts, segment.biases, 0};
  const bool keeps = blockIdx.x == 0;
  const int way = uniform(rows.count == 1 ? segment.staging : 0);
  if (kTiles == 1 && way > 0 && (step.skipped & kSkipStage) == 0) {
    const int slot = segment.in.slots > 0 ? chosen[rows.listed * kMaxRows + rows.first] : 0;
    const int source = segment.in.slots > 0 ? rows.first * segment.in.slots + slot : rows.first;
    stage_one(step, now, way, segment, slot < 0 ? -1 : source, rows.first, keeps, stage, partial);
  } else {
    if (now >= 0) meet(step, now);
    if ((step.skipped & kSkipStage) == 0)
      stage_any<kTiles>(segment_place, chosen, rows, keeps, stage, partial);
  }
}

}  // namespace slip::backend::cuda
