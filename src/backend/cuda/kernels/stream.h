// Stream: the weights of one warp, from tile to tile and product to product, in the order it multiplies them.
//
// Every warp copies its own pieces through a ring in shared memory by bulk copies, and runs ahead: when a
// product has no more for it, it goes on with the next one's weights, so that they are under way while blocks
// wait for one another. What a warp reads of a matrix is an arithmetic progression of places, so moving on
// costs an addition; a whole run of tiles is looked up ahead of time, outside the loops that multiply.
// Between products a stream lies in shared memory, during one in registers: nothing of it may have an
// address.
#pragma once

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

/// What a block has of a segment: groups of tiles.
struct Share {
  int first = 0, end = 0;
};
__device__ __forceinline__ Share share_of(const Segment& segment, int matrices) {
  const int own = static_cast<int>(blockIdx.x) - segment.first_block;
  int each = segment.each, more = segment.more;
  if (segment.matrix.count > 1) {
    const auto groups = static_cast<unsigned>(segment.groups * matrices),
               blocks = static_cast<unsigned>(segment.blocks);
    each = static_cast<int>(groups / blocks);
    more = static_cast<int>(groups % blocks);
  }
  const int first = own * each + min(own, more);
  return {first, first + each + (own < more ? 1 : 0)};
}

/// The segment of a job that this block has a share of; none past the job's blocks.
__device__ __forceinline__ const Segment& segment_of(const Job& job) {
  int index = 0;
#pragma unroll
  for (int i = 1; i < kMaxSegments; ++i) {
    if (i < job.segment_count && static_cast<int>(blockIdx.x) >= job.segments[i].first_block) index = i;
  }
  return job.segments[index];
}

/// Consecutive groups of one matrix, from the point of view of a warp: its tile of the first group, and how
/// many groups there are. All its tiles but the last one are inside the matrix for sure.
struct Run {
  int listed, tile, count;
};
__device__ __forceinline__ Run run_from(const Segment& segment, int warp, int group, int end) {
  Run run{0, group, end - group};
  if (segment.matrix.count > 1) {
    run.listed = static_cast<int>(static_cast<unsigned>(group) / static_cast<unsigned>(segment.groups));
    run.tile = group - run.listed * segment.groups;
    run.count = min(run.count, segment.groups - run.tile);
  }
  run.tile = run.tile * (kWarps >> segment.parts_log) + (warp >> segment.parts_log);
  return run;
}

/// The pieces of a tile that are this warp's.
struct Pieces {
  int begin, end;
};
__device__ __forceinline__ Pieces own_pieces(const Segment& segment, int warp) {
  const int part = warp & ((1 << segment.parts_log) - 1);
  return {part * segment.matrix.pieces >> segment.parts_log,
          (part + 1) * segment.matrix.pieces >> segment.parts_log};
}

/// A warp's tiles of a run: `tiles` times `tile_bytes` bytes, `tile_step` bytes apart, in copies of
/// `stage_bytes`.
struct alignas(16) TileRun {
  const std::byte* data = nullptr;
  int tiles = 0, tile_step = 0, tile_bytes = 0, stage_bytes = 0;
  int unused[2] = {};
};

/// In shared memory, for each warp: the run after the one at hand, and where to look for more.
struct alignas(16) StreamAhead {
  TileRun run;
  int group = 0, end = 0;  // of the product's groups, those to come
  int passes_left = 0;
  int product = -1;
};

/// The list of matrices that is in shared memory.
struct alignas(16) KnownList {
  int number = -1, matrices = 0;
};

__device__ __forceinline__ const Job& job_at(const SharedPlan& plan, int product) {
  return shared_at<const Job>(plan.jobs)[static_cast<unsigned>(product) % kJobsKept];
}

struct alignas(16) Stream {
  TileRun run;                    // after the tile at hand,
  const std::byte* at = nullptr;  // of which this comes next,
  int left = 0;                   // so many bytes
  int ahead = 0;                  // 1 = another run is known
  int read = 0, under_way = 0;    // in the ring
  uint32_t parity = 0;
  int first_slot = 0;

  /// Starts copies while there is room and something to copy.
  __device__ __forceinline__ void fill(const StepArguments& step) {
    if ((step.skipped & kSkipStream) != 0) return;
#pragma unroll 1
    while (under_way < step.plan.slots) {
      if (left == 0 && !next_tile(step.plan)) return;
      const int write = read + under_way, slot = write >= step.plan.slots ? write - step.plan.slots : write;
      const int bytes = min(left, run.stage_bytes);
      copy_bulk(shared_at<std::byte>(place(step.plan, slot)), at, bytes, arrival(step.plan, slot));
      at += bytes;
      left -= bytes;
      ++under_way;
    }
  }
  /// The place of the next stage, once it is there.
  __device__ __forceinline__ int next(const StepArguments& step) const {
    if ((step.skipped & kSkipStream) == 0) wait_arrival(arrival(step.plan, read), parity);
    return place(step.plan, read);
  }
  /// The stage has been used.
  __device__ __forceinline__ void release(const StepArguments& step) {
    if (++read == step.plan.slots) {
      read = 0;
      parity ^= 1;
    }
    --under_way;
    fill(step);
  }
  /// Looks for another run, of products up to `last`, and starts copies.
  __device__ __forceinline__ void look_ahead(const StepArguments& step, int last) {
    while (true) {
      if (ahead == 0) ahead = find_run(step.plan, last) ? 1 : 0;
      const bool had = ahead != 0;
      fill(step);
      if (ahead != 0 || !had) return;
    }
  }

 private:
  __device__ __forceinline__ Arrival* arrival(const SharedPlan& plan, int slot) const {
    return shared_at<Arrival>(plan.arrivals) + first_slot + slot;
  }
  __device__ __forceinline__ int place(const SharedPlan& plan, int slot) const {
    return plan.ring + (first_slot + slot) * plan.slot_bytes;
  }

  __device__ __forceinline__ bool next_tile(const SharedPlan& plan) {
    if (run.tiles == 0) {
      if (ahead == 0) return false;
      run = load_words(&shared_at<const StreamAhead>(plan.ahead)[thread_here() / 32].run);
      ahead = 0;
    }
    --run.tiles;
    at = run.data;
    run.data += run.tile_step;
    left = run.tile_bytes;
    return true;
  }

  /// The next run that has something for this warp; false when there is none yet.
  __device__ __forceinline__ bool find_run(const SharedPlan& plan, int last) {
    const int thread = thread_here(), warp = thread / 32;
    StreamAhead& kept = shared_at<StreamAhead>(plan.ahead)[warp];
    StreamAhead next = load_words(&kept);
    const KnownList list = *shared_at<const KnownList>(plan.list);
    next.run.tiles = 0;
    do {
      if (next.group == next.end && !find_groups(plan, last, list, next)) break;
      if (next.group < next.end) take_run(plan, warp, next);
    } while (next.run.tiles == 0);
    __syncwarp();  // all lanes have read
    if (thread % 32 == 0) store_words(&kept, next);
    __syncwarp();
    return next.run.tiles > 0;
  }
  /// The share of the next pass or of the next product, which may be empty.
  __device__ static __forceinline__ bool find_groups(const SharedPlan& plan, int last, const KnownList& list,
                                                     StreamAhead& next) {
    if (next.passes_left > 1) {
      --next.passes_left;
    } else {
      if (next.product >= last) return false;
      const Job& job = job_at(plan, next.product + 1);
      if (job.stacked && job.list_number != list.number) return false;
      ++next.product;
      next.passes_left = job.passes;
    }
    const Job& job = job_at(plan, next.product);
    next.group = next.end = 0;
    if (static_cast<int>(blockIdx.x) >= job.blocks) return true;
    const Share share = share_of(segment_of(job), list.matrices);
    next.group = share.first;
    next.end = share.end;
    return true;
  }
  /// The groups that are left, or those of them that belong to one matrix.
  __device__ static __forceinline__ void take_run(const SharedPlan& plan, int warp, StreamAhead& next) {
    const Segment& segment = segment_of(job_at(plan, next.product));
    const PackedMatrix& matrix = segment.matrix;
    const int slots = kWarps >> segment.parts_log;
    const Run groups = run_from(segment, warp, next.group, next.end);
    next.group += groups.count;
    const Pieces pieces = own_pieces(segment, warp);
    const int from = min(pieces.begin * matrix.piece_bytes, matrix.tile_bytes);
    TileRun& run = next.run;
    run.tile_bytes = min(pieces.end * matrix.piece_bytes, matrix.tile_bytes) - from;
    run.tile_step = slots * matrix.tile_bytes;
    run.stage_bytes = matrix.subtiles == 1 ? 2 * matrix.piece_bytes : matrix.piece_bytes;
    const bool last_inside = groups.tile + (groups.count - 1) * slots < matrix.tiles;
    run.tiles = run.tile_bytes == 0 ? 0 : last_inside ? groups.count : groups.count - 1;
    run.data = matrix.data + static_cast<int64_t>(groups.tile) * matrix.tile_bytes + from;
    if (matrix.count > 1)
      run.data += shared_at<const int>(plan.active)[groups.listed] * matrix.matrix_bytes();
  }
};

__device__ __forceinline__ Stream load_stream(const SharedPlan& plan) {
  return load_words(&shared_at<const Stream>(plan.streams)[thread_here() / 32]);
}
__device__ __forceinline__ void keep_stream(const SharedPlan& plan, const Stream& stream) {
  const int thread = thread_here();
  __syncwarp();
  if (thread % 32 == 0) store_words(&shared_at<Stream>(plan.streams)[thread / 32], stream);
  __syncwarp();
}

}  // namespace slip::backend::cuda
