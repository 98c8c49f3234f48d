// Staging (see stage.h) of rows whose input is of a kind that is known when the kernel is compiled. Small
// products are all about waiting: everything is under way before any of it is used, and stays in registers.
// The same sums in the same order as the Stager's. A single row, the case of plain decoding, is part of the
// step's own code, and reads its norms before blocks meet.
#pragma once

#include "backend/cuda/kernels/meeting.h"

namespace slip::backend::cuda {

/// The meeting before a phase, if it is still to come.
struct Meeting {
  int phase;  // -1 = the other blocks have been met
  int product;
};

inline constexpr int kMostTurns = 3;  // of four columns a thread

/// Ways to stage rows, as Segment::staging: which of them it is, times four, plus the turns. 0 = none fits.
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

/// `kRows` rows at a time.
template <int kTiles, int kRows, int kTurns, bool kBranch, bool kNormed>
struct KnownRows {
  using Four = float4[kTurns];
  const Segment& segment;
  const Stage& stage;
  float* partial;  // as the Stager's
  const int thread = thread_here(), col = 4 * thread, cols = segment.in.cols;
  const int padded = segment.matrix.padded_cols(), groups = uniform(segment.matrix.groups);
  const Format format = segment.matrix.format;
  Four weights = {}, branch_weights = {};
  Four x[kRows] = {}, branch[kRows] = {};

  __device__ __forceinline__ void load_weights() {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if constexpr (kBranch)
        branch_weights[i] = read_weights(segment.in.branch_norm, col + i * kTurnCols, cols);
      if constexpr (kNormed) weights[i] = read_weights(segment.norm, col + i * kTurnCols, cols);
    }
  }

  /// Rows `first` and so on of a pass; `left` of them are there. `source`: of the input, the row of the first
  /// of them, -1 = zeros; `row`: of the step.
  __device__ __forceinline__ void run(int first, int left, int source, int row, bool keeps) {
    const Input& in = segment.in;
    const float* from = in.rows + source * static_cast<int>(in.stride);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      read(x[r], from + r * static_cast<int>(in.stride), source >= 0 && there(r, left));
    if constexpr (kBranch) {
      load_branch(left, row);
      add_branch(first, left);
    }
    if (keeps) {
      keep(in.keep, in.keep_stride, row, left);
      keep(in.tap, in.tap_stride, row, left);
    }
    if constexpr (kNormed) {
      leave_squares(partial + kWarps * kMaxRows, x, first, left);
      weigh();
      if (keeps) keep(segment.keep_normed, segment.keep_normed_stride, row, left);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (there(r, left)) put(x[r], first + r);
    }
  }

 private:
  __device__ static __forceinline__ bool there(int r, int left) {
    return kRows == 1 || r < left;
  }
  __device__ __forceinline__ void read(Four& out, const float* row, bool wanted) const {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) out[i] = read_four(row, col + i * kTurnCols, cols, wanted);
  }

  __device__ __forceinline__ void load_branch(int left, int row) {
    const Input& in = segment.in;
    const int stride = static_cast<int>(in.branch_stride);
    const float* from = in.branch + row * stride;
#pragma unroll
    for (int r = 0; r < kRows; ++r) read(branch[r], from + r * stride, there(r, left));
    const int parts = uniform(in.branch_parts);
    // As many at a time as registers hold.
    constexpr int kAtOnce = kRows * kTurns > 2 ? 1 : kMaxSlices - 1;
#pragma unroll 1
    for (int part = 1; part < parts; part += kAtOnce) {
      Four more[kAtOnce][kRows];
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          read(more[p][r], from + (part + p) * in.part_stride + r * stride,
               part + p < parts && there(r, left));
      }
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (part + p >= parts) break;
#pragma unroll
        for (int r = 0; r < kRows; ++r) add(branch[r], more[p][r]);
      }
    }
  }
  __device__ static __forceinline__ void add(Four& to, const Four& more) {
#pragma unroll
    for (int i = 0; i < kTurns; ++i)
      to[i] = make_float4(to[i].x + more[i].x, to[i].y + more[i].y, to[i].z + more[i].z, to[i].w + more[i].w);
  }

  __device__ __forceinline__ void leave_squares(float* to, const Four (&values)[kRows], int first,
                                                int left) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (!there(r, left)) break;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kTurns; ++i) sum = squares_of(values[r][i], sum);
      sum = warp_sum(sum);
      if (thread % 32 == 0) *partial_of(to, first + r, thread / 32) = sum;
    }
  }
  __device__ __forceinline__ void add_branch(int first, int left) {
    leave_squares(partial, branch, first, left);
    __syncthreads();
    const float scalar = segment.in.scalar;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (!there(r, left)) break;
      const float scale = row_factor(partial, first + r, cols, segment.in.epsilon);
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const float4 &b = branch[r][i], &weight = branch_weights[i], to = x[r][i];
        x[r][i] =
            make_float4((to.x + b.x * scale * weight.x) * scalar, (to.y + b.y * scale * weight.y) * scalar,
                        (to.z + b.z * scale * weight.z) * scalar, (to.w + b.w * scale * weight.w) * scalar);
      }
    }
  }
  __device__ __forceinline__ void weigh() {
    const float scale = segment.norm_scale;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const float4 &weight = weights[i], y = x[r][i];
        x[r][i] = make_float4(y.x * weight.x * scale, y.y * weight.y * scale, y.z * weight.z * scale,
                              y.w * weight.w * scale);
      }
    }
  }
  __device__ __forceinline__ void keep(float* to, int64_t stride, int row, int left) const {
    if (to == nullptr) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (!there(r, left)) break;
#pragma unroll
      for (int i = 0; i < kTurns; ++i)
        store_four(to + (row + r) * static_cast<int>(stride), col + i * kTurnCols, cols, x[r][i]);
    }
  }

  /// Row n of the pass as operands.
  __device__ __forceinline__ void put(const Four& values, int n) const {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const int at = col + i * kTurnCols;
      if (at - thread % 32 * 4 >= padded) break;  // the same for a whole warp
      GroupSums sums = put_four<kTiles>(stage, at, n, values[i], at < padded);
      if (groups == 0) continue;
#pragma unroll
      for (int mask = 1; mask < 8; mask *= 2)
        sums = {sums.high + shuffle_xor(sums.high, mask), sums.low + shuffle_xor(sums.low, mask)};
      if (groups == 1) sums = {sums.high + shuffle_xor(sums.high, 8), sums.low + shuffle_xor(sums.low, 8)};
      if (at < padded) put_sums(at, n, sums);
    }
  }
  /// What put_group() does, by as many of a group's threads as it has numbers: all have its sums.
  __device__ __forceinline__ void put_sums(int at, int n, GroupSums sums) const {
    const bool four_bits = format == Format::kAffine4;
    const int own = groups == 1 ? thread % 16 : thread % 8, group = groups == 1 ? at / 64 : at / 32;
    const int in_piece = groups * (four_bits ? 2 : 1), in_piece_log = groups - 1 + (four_bits ? 1 : 0);
    const int tile = n / 4, r = n % 4;
    const float offset = -code_offset(format);
    if (own < 4)
      shared_at<float>(
          stage.starts)[((group * kTiles + tile) * 4 + r / 2) * 4 + r % 2 + own % 2 * 2 + own / 2 * 8] =
          offset * (own < 2 ? sums.high : sums.low);
    const Split total = split_bf16(sums.high + sums.low, 0);
    const int in = group & (in_piece - 1);
    auto* halves =
        shared_at<uint16_t>(stage.biases) + (((group >> in_piece_log) * kTiles + tile) * 4 + r) * 8;
    if (own < 2) halves[in + own * in_piece] = static_cast<uint16_t>(own == 0 ? total.high : total.low);
    if (in == 0 && own >= 4 + in_piece && own > 4 && own < 8)
      reinterpret_cast<uint32_t*>(halves)[own - 4] = 0;
  }
};

/// Way `way` to stage row `row` of the step. What does not depend on other blocks is read before
/// they are met.
template <int kWay = staging(true, true, kMostTurns)>
__device__ __forceinline__ void stage_one(const StepArguments& step, const Meeting& meeting, int way, const Segment& segment,
                                          int source, int row, bool keeps, const Stage& stage,
                                          float* partial) {
  if constexpr (kWay > 0) {
    if (way == kWay) {
      if constexpr (kWay % 4 > 0) {
        KnownRows<1, 1, kWay % 4, (kWay & 8) != 0, (kWay & 4) != 0> one{segment, stage, partial};
        one.load_weights();
        if (meeting.phase >= 0) meet(step, meeting.phase, meeting.product);
        one.run(0, 1, source, row, keeps);
      }
      return;
    }
    stage_one<kWay - 1>(step, meeting, way, segment, source, row, keeps, stage, partial);
  }
}

/// All rows of a pass by way `way`, as many at a time as registers hold; false where none fits.
template <int kTiles, int kWay = staging(true, true, kMostTurns)>
__device__ __forceinline__ bool stage_several(int way, const Segment& segment, const StagedRows& rows,
                                              bool keeps, const Stage& stage, float* partial) {
  if constexpr (kWay == 0) {
    return false;
  } else if constexpr (kWay % 4 == 0) {
    return stage_several<kTiles, kWay - 1>(way, segment, rows, keeps, stage, partial);
  } else {
    if (way != kWay) return stage_several<kTiles, kWay - 1>(way, segment, rows, keeps, stage, partial);
    constexpr int kRows = kWay % 4 == 1 ? 4 : kWay % 4 == 2 ? 2 : 1;
    KnownRows<kTiles, kRows, kWay % 4, (kWay & 8) != 0, (kWay & 4) != 0> some{segment, stage, partial};
    some.load_weights();
#pragma unroll 1
    for (int n = 0; n < rows.count; n += kRows)
      some.run(n, rows.count - n, rows.first + n, rows.first + n, keeps);
    return true;
  }
}

/// Any number of rows of any input. Not inlined: it would take registers from the single row.
template <int kTiles>
__device__ __noinline__ void stage_any(const Segment* staged, const int8_t* chosen, StagedRows rows, bool keeps,
                                       Stage stage, float* partial) {
  const Segment& segment = *staged;
  const int way = uniform(segment.in.slots > 0 ? 0 : segment.staging);
  if (stage_several<kTiles>(way, segment, rows, keeps, stage, partial)) return;
  Stager<kTiles, 4, 1> stager{segment, chosen, rows, stage, keeps, partial};
  if (stager.at_once()) {
    stager.run_once();
  } else {
    stager.run_blocks();
  }
}

/// All threads of the block; the rows are there after the next barrier of the block. 
template <int kTiles>
__device__ __forceinline__ void stage_rows(const StepArguments& step, const Meeting& meeting, const Segment& segment,
                                           const StagedRows& rows) {
  const SharedPlan& plan = step.plan;
  const auto* chosen = shared_at<const int8_t>(plan.chosen);
  auto* partial = shared_at<float>(plan.partial);
  const Stage stage{plan.work, segment.starts, segment.biases, 0};
  const bool keeps = block_here() == 0;
  const int way = uniform(rows.count == 1 ? segment.staging : 0);
  if (kTiles == 1 && way > 0 && (step.skipped & kSkipStage) == 0) {
    const int slot = segment.in.slots > 0 ? chosen[rows.listed * kMaxRows + rows.first] : 0;
    const int source = segment.in.slots > 0 ? rows.first * segment.in.slots + slot : rows.first;
    stage_one(step, meeting, way, segment, slot < 0 ? -1 : source, rows.first, keeps, stage, partial);
  } else {
    if (meeting.phase >= 0) meet(step, meeting.phase, meeting.product);
    if ((step.skipped & kSkipStage) == 0)
      stage_any<kTiles>(&segment, chosen, rows, keeps, stage, partial);
  }
}

}  // namespace slip::backend::cuda
