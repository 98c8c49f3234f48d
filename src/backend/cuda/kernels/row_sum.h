// Rows of a product's input, summed up: what was there before, and a branch with its norm. By a block of
// threads, which holds them in registers: a thread has columns 4 * thread .. + 3, and so on every kTurnCols
// further. So does whoever multiplies with them (stage_known.h), and a phase of its own where many parts of
// several rows would have to be read by every block.
#pragma once

#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/meeting.h"

namespace slip::backend::cuda {

/// What is added to a row.
enum class Branch : int { kNone, kRow, kBunches, kChoices };  // the latter two beside experts
__host__ __device__ inline Branch branch_of(const Input& in) {
  if (in.branch == nullptr) return Branch::kNone;
  if (in.mixture.chosen == 0) return Branch::kRow;
  return in.mixture.bunched ? Branch::kBunches : Branch::kChoices;
}

/// `kRows` rows at a time.
template <int kRows, int kTurns, Branch kAdded>
struct RowSum {
  static constexpr bool kBranch = kAdded != Branch::kNone;
  using Four = float4[kTurns];
  const Input& in;
  float* partial;   // [2][kMaxRows][kWarps]: space for sums of squares
  const int parts;  // of the branch
  const int thread = thread_here(), col = 4 * thread, cols = in.cols;
  Four branch_weights = {};
  Four x[kRows] = {}, branch[kRows] = {};
  const float *row_from = nullptr, *branch_from = nullptr;  // see aim()

  __device__ __forceinline__ RowSum(const Input& input, float* space, int branch_parts)
      : in(input), partial(space), parts(branch_parts) {}

  /// Before the blocks meet: where the rows of a pass come from. The first is row `source` of the input, -1 =
  /// zeros, and row `row` of the step.
  __device__ __forceinline__ void aim(int source, int row) {
    row_from = source < 0 ? nullptr : in.rows + source * static_cast<int>(in.stride);
    if constexpr (kBranch) branch_from = in.branch + row * static_cast<int>(in.branch_stride);
  }
  __device__ __forceinline__ void load_weights() {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      if constexpr (kBranch) branch_weights[i] = read_weights(in.branch_norm, col + i * kTurnCols, cols);
    }
  }

  /// Rows `first` and so on of a pass, which are rows `row` and so on of the step; `left` of them are there,
  /// the others become zeros. `keeps`: where the input says.
  __device__ __forceinline__ void sum_up(int first, int left, int row, bool keeps) {
    // The branch of several rows may be many parts, which need registers first.
    if constexpr (kBranch && kRows > 1) load_branch(first, left);
    const int stride = kRows == 1 ? 0 : static_cast<int>(in.stride);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      read(x[r], row_from + (first + r) * stride, row_from != nullptr && there(r, left));
    if constexpr (kBranch && kRows == 1) load_branch(first, left);
    if constexpr (kAdded == Branch::kBunches)
      mix_experts<BunchSum>(in.mixture, row, col, cols, in.epsilon, partial_of(partial, 1, 0), branch[0]);
    if constexpr (kAdded == Branch::kChoices)
      mix_experts<ExpertSum>(in.mixture, row, col, cols, in.epsilon, partial_of(partial, 1, 0), branch[0]);
    if constexpr (kBranch) add_branch(first);
    if (keeps) {
      keep(in.keep, in.keep_stride, row, left);
      keep(in.tap, in.tap_stride, row, left);
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

 protected:
  __device__ static __forceinline__ bool there(int r, int left) {
    return kRows == 1 || r < left;
  }
  __device__ __forceinline__ void read(Four& out, const float* row, bool wanted) const {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) out[i] = read_four(row, col + i * kTurnCols, cols, wanted);
  }

  /// The sum of the branch's parts, in their order. All parts of some rows are under way at once.
  __device__ __forceinline__ void load_branch(int first, int left) {
    const int stride = kRows == 1 ? 0 : static_cast<int>(in.branch_stride);
    const float* from = branch_from + first * stride;
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
    for (int i = 0; i < kTurns; ++i) to[i] = plus(to[i], more[i]);
  }

  __device__ static __forceinline__ float squares_in(const Four& values) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) sum = squares_of(values[i], sum);
    return sum;
  }
  __device__ __forceinline__ void leave_squares(float* to, const Four (&values)[kRows], int first) const {
    constexpr int kLanes = 32 / kRows;  // that have the sum of a row
    float sums[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) sums[r] = squares_in(values[r]);
    const float sum = warp_sum_of(sums);
    const int lane = thread % 32;
    if (lane % kLanes == 0) *partial_of(to, first + lane / kLanes, thread / 32) = sum;
  }
  __device__ __forceinline__ void add_branch(int first) {
    leave_squares(partial, branch, first);
    __syncthreads();
    const float scalar = in.scalar;
    const float mine = row_factor(partial, first + thread % kRows, cols, in.epsilon);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float scale = kRows == 1 ? mine : shuffle(mine, r);
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const float4 &b = branch[r][i], &weight = branch_weights[i], to = x[r][i];
        x[r][i] =
            make_float4((to.x + b.x * scale * weight.x) * scalar, (to.y + b.y * scale * weight.y) * scalar,
                        (to.z + b.z * scale * weight.z) * scalar, (to.w + b.w * scale * weight.w) * scalar);
      }
    }
  }
};

/// One row by a block of threads. The norm is read before the blocks meet.
template <Branch kAdded, int kTurns = kMostTurns>
__device__ __forceinline__ void sum_row(const StepArguments& step, const Meeting& meeting, const Input& in,
                                        int row) {
  if constexpr (kTurns > 1) {
    if (in.cols <= (kTurns - 1) * kTurnCols) return sum_row<kAdded, kTurns - 1>(step, meeting, in, row);
  }
  RowSum<1, kTurns, kAdded> sum{in, shared_at<float>(step.plan.partial), uniform(in.branch_parts)};
  sum.load_weights();
  sum.aim(row, row);
  meeting.hold(step);
  sum.sum_up(0, 1, row, true);
}
/// Phase `now`: each row by a block of its own. Not inlined: only several rows need it.
__device__ __noinline__ inline void sum_rows(int arguments, int now) {
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  const auto& job = reinterpret_cast<const SumJob&>(shared_at<const Phase>(phase_at(step.plan, now))->body);
  Meeting meeting{now};
  for (int row = block_here(); row < job.rows; row += static_cast<int>(gridDim.x)) {
    if (branch_of(job.in) == Branch::kChoices) {
      sum_row<Branch::kChoices>(step, meeting, job.in, row);
    } else {
      sum_row<Branch::kRow>(step, meeting, job.in, row);
    }
    meeting = {-1};
    __syncthreads();  // before the next row's sums of squares
  }
  meeting.hold(step);
}

}  // namespace slip::backend::cuda
