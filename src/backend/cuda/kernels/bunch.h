// The down of a single row's experts: a block has the same tiles of all matrices of a bunch (kBunch of the
// row's choices), a quarter of its warps for each, and weights and adds up what they give. So whoever reads
// the sum of all reads a row per bunch, not one per expert, which every block would do for itself: 34 KB
// instead of 101 on 26B-A4B, 2 us less before its queries, keys and values. To give a block its tiles of all
// eight experts would leave some with twice the work of others; of four, with a twelfth more.
#pragma once

#include "backend/cuda/kernels/stage_turn.h"
#include "backend/cuda/kernels/tiles.h"

namespace slip::backend::cuda {

/// Stages the choices, each at a place of its own, and keeps their shares where sums of squares are in other
/// products. Where all of it comes from is known before the blocks meet.
__device__ __forceinline__ void stage_bunch(const StepArguments& step, int now, const Segment& segment,
                                            int listed) {
  constexpr int kAtOnce = 2;
  const PackedMatrix& matrix = segment.matrix;
  const int stretches = (matrix.padded_cols() + kWarpCols - 1) / kWarpCols, items = kBunch * stretches,
            rows_apart = segment.space.rows_apart, thread = thread_here(), cols = segment.in.cols;
  const float* rows = segment.in.rows + listed * static_cast<int>(segment.in.stride);
  const Stage stage{step.plan.work, segment.space.biases, 0};
  const float* from[kAtOnce];
  int places[kAtOnce], col[kAtOnce];
  int first = thread / 32;
  const auto aim = [&] {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = first + i * kWarps, nth = quotient(item, stretches);
      from[i] = item < items ? rows + nth * static_cast<int>(segment.in.stride) : nullptr;
      places[i] = nth * rows_apart;
      col[i] = (item - nth * stretches) * kWarpCols + 4 * (thread % 32);
    }
  };
  aim();
  const float* share_from = segment.bunch_shares + listed + thread;
  meet(step, now);
  float share = 0;
  if (thread < kBunch) share = load_fresh(share_from);
#pragma unroll 1
  while (true) {
    float4 x[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) x[i] = read_four(from[i], col[i], cols, from[i] != nullptr);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i * kWarps >= items) break;
      put_columns<1>({stage.rows + places[i], stage.biases + places[i], 0}, matrix, col[i], 0, x[i]);
    }
    first += kAtOnce * kWarps;
    if (first >= items) break;
    aim();
  }
  if (thread < kBunch) shared_at<float>(step.plan.partial)[thread] = share;
}

/// The results of rounds `first` .. `end` - 1 of the tiles, as finish_rounds().
__device__ __forceinline__ void finish_bunch(const SharedPlan& plan, const Segment& segment,
                                             const TileTurn& turn, int first, int end, int sums) {
  const int results_log = results_log_of(segment), slots_log = segment.slots_log,
            parts_log = segment.parts_log, results = (end - first) << (slots_log + results_log);
  float* out = segment.out + turn.run.listed / kBunch * static_cast<int>(segment.out_stride);
  int row = 0;
  // Where the first matrix's sums of result i are; -1 = there is none. Which row it is is said beside.
  const auto place_of = [&](int i) {
    const int r = i & ((1 << results_log) - 1), slot = i >> results_log & ((1 << slots_log) - 1),
              round = i >> (results_log + slots_log);
    const WarpShare own = warp_share(segment, slot << parts_log, turn.run.count);
    row = ((turn.run.tile + own.first + first + round) << results_log) + r;
    if (i >= results || first + round >= own.count || row >= segment.matrix.rows) return -1;
    const int part = (round * segment.matrix.subtiles + r / 16) * kWarps + (slot << parts_log);
    return sums + (part * 16 + r % 16) * 4;
  };
  int i = thread_here(), place = place_of(i);
  __syncthreads();
  const float4 four = *shared_at<const float4>(plan.partial);
  const float share[kBunch] = {four.x, four.y, four.z, four.w};
#pragma unroll 1
  while (i < results) {
    if (place >= 0) {
      const auto* from = shared_at<const float>(place);
      float sum = 0;
#pragma unroll
      for (int m = 0; m < kBunch; ++m)
        sum = fmaf(share[m], sum_parts(from + m * (kWarps / kBunch * 16), 1 << parts_log, 16), sum);
      out[row] = sum;
    }
    i += kBlockThreads;
    place = place_of(i);
  }
}

/// Product `product`, as phase `now`; the host has worked out the turn. Not inlined: few products need it.
__device__ __noinline__ inline void run_bunch(int arguments, int now, int product, int kind) {
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  const SharedPlan& plan = step.plan;
  const OwnJob& job = job_at(plan, product);
  const Segment& segment = job.segment;
  const TileTurn& turn = duty_at(plan, product).turn;
  const int way = Duty::multiplying(kind), rounds = uniform(turn.rounds);
  if ((kind & Duty::kNotStaged) == 0 && rounds > 0) {
    stage_bunch(step, now, segment, turn.run.listed);
  } else {
    meet(step, now);
  }
  if (rounds == 0) {
    arrive(step);
    return fill_kept(step);
  }
  const WarpShare share = load_words(&job.shares[thread_here() / 32]);
  const Space space = load_words(&segment.space);
  Stream stream = load_stream(plan);
  fill_for(plan, share, way, stream);
#pragma unroll 1
  for (int round = 0; round < rounds; round += space.batch) {
    const int end = min(rounds, round + space.batch), tiles = max(0, min(share.count, end) - round);
    const bool last = end == rounds;
    if (round > 0) __syncthreads();  // the sums before have been added up
    multiply_any<1>(plan, way, space, share, matrix_of_bunch(segment, thread_here() / 32) * space.rows_apart,
                    tiles, last, round == 0, stream, shared_at<float>(space.sums));
    if (last) tell_taken(stream);
    finish_bunch(plan, segment, turn, round, end, space.sums);
  }
  arrive(step);
  stream.fill(plan);
  keep_stream(plan, stream);
}

}  // namespace slip::backend::cuda
