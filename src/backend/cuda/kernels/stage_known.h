// Staging (see stage.h) of rows whose input is of a kind that is known when the kernel is compiled. Small
// products are all about waiting: everything is under way before any of it is used, and stays in registers.
// The same sums in the same order as the Stager's. A single row, the case of plain decoding, is part of the
// step's own code, and reads its norms before blocks meet.
#pragma once

#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/meeting.h"

namespace slip::backend::cuda {

/// The meeting before a phase, if it is still to come.
struct Meeting {
  int phase;  // -1 = it is over
};

/// What is added to a row.
enum class Branch : int { kNone, kRow, kMixture };

/// Ways to stage rows, as Segment::staging: which of them it is, times four, plus the turns. 0 = none fits.
__host__ __device__ constexpr int staging(Branch branch, bool normed, int turns) {
  return static_cast<int>(branch) * 8 + (normed ? 4 : 0) + turns;
}
inline constexpr int kLastStaging = staging(Branch::kMixture, true, kMixTurns);
/// The one that fits a segment.
__host__ inline int staging_of(const Segment& segment) {
  const Input& in = segment.in;
  const Branch branch = in.branch == nullptr     ? Branch::kNone
                        : in.mixture.chosen == 0 ? Branch::kRow
                                                 : Branch::kMixture;
  const int turns = (segment.matrix.padded_cols() + kTurnCols - 1) / kTurnCols;
  if (in.rows == nullptr || turns > kMostTurns) return 0;
  if (in.branch != nullptr && (in.branch_norm == nullptr || in.branch_parts > kMaxSlices)) return 0;
  if (segment.normed && segment.norm == nullptr) return 0;
  if (branch == Branch::kMixture && (!segment.normed || turns > kMixTurns)) return 0;
  return staging(branch, segment.normed, turns);
}

/// Where a thread's columns go as operands, of its first turn and of row 0: what put_four() and put_group()
/// find out each time.
struct PutPlaces {
  int words;    // of the operands
  int starts;   // of its group: one number by each of the first four threads
  int biases;   // by each of the first two; or, of the first group of a piece,
  bool clears;  // a word that this thread sets to zero
  int own;      // which of its group's threads it is
  int in_piece_log;
  float offset;

  __device__ __forceinline__ PutPlaces(const Stage& stage, Format format, int groups, int thread, int tiles)
      : own(groups == 1 ? thread % 16 : thread % 8),
        in_piece_log(groups - 1 + (format == Format::kAffine4 ? 1 : 0)),
        offset(-code_offset(format)) {
    const int col = 4 * thread;
    words = stage.rows + (col / 32 * tiles * 32 + col % 8 / 2) * 16 + col / 16 % 2 * 8 + col / 8 % 2 * 4;
    const int group = groups == 1 ? col / 64 : col / 32, in_piece = 1 << in_piece_log,
              in = group & (in_piece - 1);
    starts = stage.starts + group * tiles * 64 + own % 2 * 8 + own / 2 * 32;
    clears = in == 0 && own >= 4 + in_piece && own > 4 && own < 8;
    biases = stage.biases + (group >> in_piece_log) * tiles * 64 +
             (clears ? (own - 4) * 4 : (in + own * in_piece) * 2);
  }
};

/// `kRows` rows at a time.
template <int kTiles, int kRows, int kTurns, Branch kAdded, bool kNormed>
struct KnownRows {
  static constexpr bool kBranch = kAdded != Branch::kNone;
  using Four = float4[kTurns];
  const Segment& segment;
  const Stage& stage;
  float* partial;  // as the Stager's
  const int thread = thread_here(), col = 4 * thread, cols = segment.in.cols;
  const int padded = segment.matrix.padded_cols(), groups = uniform(segment.matrix.groups);
  const PutPlaces places{stage, segment.matrix.format, groups, thread, kTiles};
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
    // The branch of several rows may be many parts, which need registers first.
    if constexpr (kBranch && kRows > 1) load_branch(left, row);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      read(x[r], from + r * static_cast<int>(in.stride), source >= 0 && there(r, left));
    if constexpr (kBranch && kRows == 1) load_branch(left, row);
    if constexpr (kAdded == Branch::kMixture)
      mix_experts<kTurns>(in.mixture, row, col, cols, in.epsilon, partial_of(partial, 1, 0), branch[0]);
    if constexpr (kBranch) add_branch(first, left);
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

  /// The sum of the branch's parts, in their order. All parts of some rows are under way at once.
  __device__ __forceinline__ void load_branch(int left, int row) {
    const Input& in = segment.in;
    const int stride = static_cast<int>(in.branch_stride), parts = uniform(in.branch_parts);
    const float* from = in.branch + row * stride;
    constexpr int kAtOnce = kTurns == 1 ? kRows : kTurns == 2 && kRows > 1 ? 2 : 1;
#pragma unroll
    for (int some = 0; some < kRows; some += kAtOnce) {
      Four more[kMaxSlices - 1][kAtOnce];
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r)
        read(branch[some + r], from + (some + r) * stride, there(some + r, left));
      if (parts == 1) continue;
#pragma unroll
      for (int p = 1; p < kMaxSlices; ++p) {
#pragma unroll
        for (int r = 0; r < kAtOnce; ++r)
          read(more[p - 1][r], from + p * in.part_stride + (some + r) * stride,
               p < parts && there(some + r, left));
      }
#pragma unroll
      for (int p = 1; p < kMaxSlices; ++p) {
        if (p >= parts) break;
#pragma unroll
        for (int r = 0; r < kAtOnce; ++r) add(branch[some + r], more[p - 1][r]);
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

  /// Row n of the pass as operands, as put_four() and put_group() do it; where they go is known before.
  __device__ __forceinline__ void put(const Four& values, int n) const {
    const int tile = n / 4, r = n % 4;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if (i * kTurnCols + (col & ~127) >= padded) break;  // the same for a whole warp
      const bool inside = i * kTurnCols + col < padded;
      const Split one = split_bf16(values[i].x, values[i].y), two = split_bf16(values[i].z, values[i].w);
      if (inside) {
        auto* words = shared_at<uint32_t>(places.words + (i * kTurnCols / 32 * kTiles + tile) * 512 + r * 64);
        words[0] = one.high;
        words[4] = two.high;
        words[64] = one.low;
        words[68] = two.low;
      }
      if (groups == 0) continue;
      float high = bf16_low(one.high) + bf16_high(one.high) + (bf16_low(two.high) + bf16_high(two.high)),
            low = bf16_low(one.low) + bf16_high(one.low) + (bf16_low(two.low) + bf16_high(two.low));
#pragma unroll
      for (int mask = 1; mask < 8; mask *= 2) {
        high += shuffle_xor(high, mask);
        low += shuffle_xor(low, mask);
      }
      if (groups == 1) {
        high += shuffle_xor(high, 8);
        low += shuffle_xor(low, 8);
      }
      // By as many of a group's threads as it has numbers: all have its sums.
      const int turn = i * kTurnCols / 64 * groups;  // groups
      if (inside && places.own < 4)
        *shared_at<float>(places.starts + (turn * kTiles + tile) * 64 + r / 2 * 16 + r % 2 * 4) =
            places.offset * (places.own < 2 ? high : low);
      const Split total = split_bf16(high + low, 0);
      const int at = ((turn >> places.in_piece_log) * kTiles + tile) * 64 + r * 16;
      if (inside && places.own < 2)
        *shared_at<uint16_t>(places.biases + at) =
            static_cast<uint16_t>(places.own == 0 ? total.high : total.low);
      if (inside && places.clears) *shared_at<uint32_t>(places.biases + at) = 0;
    }
  }
};

/// Way `way` to stage row `row` of the step. What does not depend on other blocks is read before
/// they are met.
template <int kWay = kLastStaging>
__device__ __forceinline__ void stage_one(const StepArguments& step, const Meeting& meeting, int way,
                                          const Segment& segment, int source, int row, bool keeps,
                                          const Stage& stage, float* partial) {
  if constexpr (kWay > 0) {
    if (way == kWay) {
      if constexpr (kWay % 4 > 0 && (kWay / 8 < 2 || (kWay & 4) != 0)) {  // mixtures are normed
        KnownRows<1, 1, kWay % 4, static_cast<Branch>(kWay / 8), (kWay & 4) != 0> one{segment, stage,
                                                                                      partial};
        one.load_weights();
        if (meeting.phase >= 0) meet(step, meeting.phase);
        one.run(0, 1, source, row, keeps);
      }
      return;
    }
    stage_one<kWay - 1>(step, meeting, way, segment, source, row, keeps, stage, partial);
  }
}

/// All rows of a pass by way `way`, as many at a time as registers hold; false where none fits.
template <int kTiles, int kWay = staging(Branch::kRow, true, kMostTurns)>
__device__ __forceinline__ bool stage_several(int way, const Segment& segment, const StagedRows& rows,
                                              bool keeps, const Stage& stage, float* partial) {
  if constexpr (kWay == 0) {
    return false;
  } else if constexpr (kWay % 4 == 0) {
    return stage_several<kTiles, kWay - 1>(way, segment, rows, keeps, stage, partial);
  } else {
    if (way != kWay) return stage_several<kTiles, kWay - 1>(way, segment, rows, keeps, stage, partial);
    constexpr int kTurns = kWay % 4, kRows = kTurns > 1 && (kWay & 8) != 0 ? 2 : 4;
    KnownRows<kTiles, kRows, kTurns, static_cast<Branch>(kWay / 8), (kWay & 4) != 0> some{segment, stage,
                                                                                          partial};
    some.load_weights();
#pragma unroll 1
    for (int n = 0; n < rows.count; n += kRows)
      some.run(n, rows.count - n, rows.first + n, rows.first + n, keeps);
    return true;
  }
}

/// Any number of rows of any input. Not inlined: it would take registers from the single row.
template <int kTiles>
__device__ __noinline__ void stage_any(const Segment* staged, const int8_t* chosen, StagedRows rows,
                                       bool keeps, Stage stage, float* partial) {
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
__device__ __forceinline__ void stage_rows(const StepArguments& step, const Meeting& meeting,
                                           const Segment& segment, const StagedRows& rows) {
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
    if (meeting.phase >= 0) meet(step, meeting.phase);
    if ((step.skipped & kSkipStage) == 0) stage_any<kTiles>(&segment, chosen, rows, keeps, stage, partial);
  }
}

}  // namespace slip::backend::cuda
