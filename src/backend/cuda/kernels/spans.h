// Products of five to eight rows that are too wide for shared memory, as 31B's are: their columns are taken
// in two spans, so that weights are still read once. A span is half the pieces of every part of a tile, so
// each warp goes on where it was, with sums that wait in memory meanwhile: the same sums in the same order as
// those of fewer rows. Bytes: the weights once, rows once per span, 32 KB of sums per round of tiles and
// block to the second-level cache and back.
#pragma once

#include "backend/cuda/kernels/stage_turn.h"
#include "backend/cuda/kernels/tiles.h"

namespace slip::backend::cuda {

/// Rows of a pass, of a span of columns, in the way the duty says: where none fits, columns are not taken in
/// spans. Not inlined, as stage_any().
template <int kTiles>
__device__ __noinline__ void stage_span(const Segment* segment, int arguments, Meeting meeting,
                                        StagedRows rows, Stage stage, int kind, int span) {
  stage_in_way<kTiles, false, true>(
      {*shared_at<const StepArguments>(arguments), meeting, rows, stage, kind, span}, *segment);
}

/// What a warp has of a product in spans.
template <int kTiles>
class SpanWalk {
 public:
  __device__ __forceinline__ SpanWalk(const StepArguments& step, int product, int kind)
      : step_(step),
        product_(product),
        kind_(kind),
        share_(warp_share(segment(), thread_here() / 32, tiles())),
        part_(thread_here() / 32 & (segment().matrix.parts - 1)) {}

  __device__ __forceinline__ int tiles() const {
    const Duty& duty = duty_at(step_.plan, product_);
    return duty.end - duty.first;
  }
  /// The rows of a pass, from their staging to their results. `now`: the phase, if other blocks are still to
  /// be met, else -1.
  __device__ __forceinline__ void run_pass(int pass, int now) {
    const JobFrame& frame = job_at(step_.plan, product_).frame;
    const int first_row = pass * frame.rows_per_pass;
    const TileTurn turn{.run = {0, duty_at(step_.plan, product_).first, tiles()},
                        .first_row = first_row,
                        .rows = min(frame.rows_per_pass, frame.rows - first_row),
                        .rounds = rounds_of(segment(), tiles())};
    stage(turn, 0, now);
    for (int nth = 0; nth < share_.count; ++nth) multiply(0, nth, false, nullptr);
    keep_stream(step_.plan, stream_);
    __syncthreads();  // the first span has been used
    stage(turn, 1, -1);
    const Space& space = segment().space;
    for (int round = 0; round < turn.rounds; round += space.batch) {
      const int end = min(turn.rounds, round + space.batch),
                sums = space.sums + half_ * space.half_floats * 4;
      const bool last = end == turn.rounds && pass + 1 == frame.passes;
      const int tile_floats = (kWarps * 16 * segment().matrix.subtiles) << space.rows_log;
      for (int nth = round; nth < min(share_.count, end); ++nth)
        multiply(1, nth, last && nth + 1 == share_.count,
                 shared_at<float>(sums) + (nth - round) * tile_floats);
      if (last) tell_taken(stream_);
      finish_rounds(step_.plan, segment(), turn, round, end, sums, kind_, false);
      half_ ^= space.half_floats > 0 ? 1 : 0;
      if (!last && space.half_floats == 0) __syncthreads();  // nobody may overtake
    }
    keep_stream(step_.plan, stream_);
  }
  __device__ __forceinline__ Stream& stream() { return stream_; }

 private:
  __device__ __forceinline__ const Segment& segment() const { return job_at(step_.plan, product_).segment; }

  /// The rows of a span are there, and weights are under way.
  __device__ __forceinline__ void stage(const TileTurn& turn, int span, int now) {
    const Stage at{step_.plan.work, segment().space.biases, 0};
    if ((kind_ & Duty::kNotStaged) == 0) {
      stage_span<kTiles>(&segment(), step_.plan.arguments, {now}, {turn.first_row, turn.rows, -1}, at, kind_,
                         span);
    } else {
      Meeting{now}.hold(step_);
    }
    __syncthreads();
    stream_ = load_stream(step_.plan);
    stream_.fill(step_.plan);
  }
  /// Of a span the warp's n-th tile.
  __device__ __forceinline__ void multiply(int span, int nth, bool last, float* sums) {
    const SharedPlan& plan = step_.plan;
    const SpanPieces pieces = span_pieces(segment().matrix, part_, span);
    if (pieces.count > 0 && stream_.left == 0 && stream_.taken == stream_.found) {
      keep_stream(plan, stream_);
      __syncwarp();
      look_now<true>(plan.arguments, product_);  // the scout has found the first few
      stream_ = load_stream(plan);
    }
    const Space space = load_words(&segment().space);
    const int first = part_ * space.span_pieces;
    const WarpShare own{share_.first, share_.count, first, first + pieces.count};
    const HeldSums held{reinterpret_cast<float4*>(step_.held) +
                            (block_here() * step_.held_tiles + nth) * (kHeldFours * kBlockThreads) +
                            thread_here(),
                        span > 0, span + 1 < kSpans};
    multiply_any<kTiles>(plan, Duty::multiplying(kind_), space, own, 0, 1, last, false, stream_, sums, held);
  }

  const StepArguments& step_;
  const int product_, kind_;
  const WarpShare share_;
  const int part_;
  int half_ = 0;
  Stream stream_;
};

/// Product `product`, as phase `now`. Not inlined: few products need it.
template <int kTiles>
__device__ __noinline__ void run_spans(int arguments, int now, int product, int kind) {
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  SpanWalk<kTiles> walk(step, product, kind);
  if (walk.tiles() == 0) {
    meet(step, now);
    arrive(step);
    return fill_kept(step);
  }
  const int passes = uniform(job_at(step.plan, product).frame.passes);
#pragma unroll 1
  for (int pass = 0; pass < passes; ++pass) {
    if (pass > 0) __syncthreads();  // what the pass before left has been read
    walk.run_pass(pass, pass == 0 ? now : -1);
  }
  arrive(step);
  walk.stream().fill(step.plan);
  keep_stream(step.plan, walk.stream());
}

}  // namespace slip::backend::cuda
