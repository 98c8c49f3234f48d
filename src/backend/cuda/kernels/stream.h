// Weights on their way: what the warps of a block read, from tile to tile and product to product.
//
// What a warp reads of a product is a run: an arithmetic progression of places. Its pieces come through a
// ring in shared memory by bulk copies, of which the warp starts one for every one it has used; when a run
// has no more for it, it goes on with the next, so that weights of the next products are under way before
// this one is over. Between products every warp fills its ring up; and one warp, the scout, looks up for all
// 16, a lane each, what comes after that, and leaves the runs in shared memory: the same instructions in all
// warps would cost 16 times as much. Then a stream lies in shared memory, during a product in registers:
// nothing of it may have an address.
#pragma once

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

inline constexpr int kRunsKept = 4;  // found and not used up, of every warp

/// Groups of tiles.
struct Share {
  int first = 0, end = 0;
};
/// What a block has of a segment, of whose stack `matrices` are read.
__device__ __forceinline__ Share share_of(const Segment& segment, const Duty& duty, int matrices) {
  if (segment.matrix.count == 1) return {duty.first, duty.end};
  const auto groups = static_cast<unsigned>(segment.groups * matrices),
             blocks = static_cast<unsigned>(segment.blocks);
  const int own = block_here() - segment.first_block;
  const int each = static_cast<int>(groups / blocks), more = static_cast<int>(groups % blocks);
  const int first = own * each + min(own, more);
  return {first, first + each + (own < more ? 1 : 0)};
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

__device__ __forceinline__ const OwnJob& job_at(const SharedPlan& plan, int product) {
  return shared_at<const OwnJob>(plan.jobs)[static_cast<unsigned>(product) % kJobsKept];
}
__device__ __forceinline__ const Duty& duty_at(const SharedPlan& plan, int product) {
  return shared_at<const Duty>(plan.duties)[static_cast<unsigned>(product) % kDutiesKept];
}

/// The list of matrices that is in shared memory.
struct alignas(16) KnownList {
  int number = -1, matrices = 0;
};

/// A warp's tiles of a run: `tiles` times `tile_bytes` bytes, `tile_step` bytes apart, in copies of
/// `stage_bytes`.
struct alignas(16) TileRun {
  const std::byte* data = nullptr;
  int tiles = 0, tile_step = 0, tile_bytes = 0, stage_bytes = 0;
  int unused[2] = {};
};
__device__ __forceinline__ TileRun tiles_of(const Segment& segment, int warp, const Run& groups,
                                            const int* listed_matrices) {
  const PackedMatrix& matrix = segment.matrix;
  const int slots = kWarps >> segment.parts_log;
  const Pieces pieces = own_pieces(segment, warp);
  const int from = min(pieces.begin * matrix.piece_bytes, matrix.tile_bytes);
  TileRun run;
  run.tile_bytes = min(pieces.end * matrix.piece_bytes, matrix.tile_bytes) - from;
  run.tile_step = slots * matrix.tile_bytes;
  run.stage_bytes = matrix.subtiles == 1 ? 2 * matrix.piece_bytes : matrix.piece_bytes;
  const bool last_inside = groups.tile + (groups.count - 1) * slots < matrix.tiles;
  run.tiles = run.tile_bytes == 0 ? 0 : last_inside ? groups.count : groups.count - 1;
  run.data = matrix.data + static_cast<int64_t>(groups.tile) * matrix.tile_bytes + from;
  if (matrix.count > 1) run.data += listed_matrices[groups.listed] * matrix.matrix_bytes();
  return run;
}

/// How far a warp has looked; in shared memory.
struct alignas(16) Lookout {
  int product = -1;        // the last one it has looked at,
  int group = 0, end = 0;  // of whose groups these are left,
  int passes_left = 0;     // the pass at hand counted
  int first = 0;           // where a pass begins
  int found = 0;           // runs, so far in the step
  int unused[2] = {};
};

/// The next pass or the next product, which may have nothing for this block; false when it is not known yet.
__device__ __forceinline__ bool next_groups(const SharedPlan& plan, int last, Lookout& at) {
  if (at.passes_left > 1) {
    --at.passes_left;
    at.group = at.first;
    return true;
  }
  if (at.product >= last) return false;
  const OwnJob& job = job_at(plan, at.product + 1);
  const Duty& duty = duty_at(plan, at.product + 1);
  const bool has_segment = duty.segment >= 0;
  const KnownList list = *shared_at<const KnownList>(plan.list);
  if (has_segment && job.segment.matrix.count > 1 && job.frame.list_number != list.number) return false;
  ++at.product;
  at.passes_left = 0;
  if (!has_segment) return true;
  const Share share = share_of(job.segment, duty, list.matrices);
  at.first = at.group = share.first;
  at.end = share.end;
  if (share.first < share.end) at.passes_left = job.frame.passes;
  return true;
}

__device__ __forceinline__ TileRun* runs_of(const SharedPlan& plan, int warp) {
  return shared_at<TileRun>(plan.runs) + warp * kRunsKept;
}

/// Finds runs of a warp, of products up to `last`. `taken`: so many are used up.
__device__ __forceinline__ void look_ahead(const SharedPlan& plan, int warp, int last, int taken) {
  Lookout* kept = shared_at<Lookout>(plan.lookouts) + warp;
  Lookout at = load_words(kept);
#pragma unroll 1
  while (at.found - taken < kRunsKept) {
    if (at.group == at.end && !next_groups(plan, last, at)) break;
    if (at.group == at.end) continue;
    const Segment& segment = job_at(plan, at.product).segment;
    const Run groups = run_from(segment, warp, at.group, at.end);
    const TileRun run = tiles_of(segment, warp, groups, shared_at<const int>(plan.active));
    at.group += groups.count;
    if (run.tiles == 0) continue;
    store_words(runs_of(plan, warp) + at.found % kRunsKept, run);
    ++at.found;
  }
  store_words(kept, at);
}

struct alignas(16) Stream {
  const std::byte* at = nullptr;    // of the tile at hand this comes next,
  int left = 0;                     // so many bytes;
  int tiles = 0;                    // after it so many of the run,
  const std::byte* tile = nullptr;  // from here on
  int tile_step = 0, tile_bytes = 0, stage_bytes = 0;
  int found = 0, taken = 0;     // runs so far
  int read = 0, under_way = 0;  // in the ring
  uint32_t parity = 0;
  int ring = 0, arrivals = 0;  // places in shared memory

  /// Whether there is something to copy, of the next tile or run where this one is at its end.
  __device__ __forceinline__ bool has_more(const TileRun* runs) {
    if (left > 0) return true;
    if (tiles == 0) {
      if (taken == found) return false;
      const TileRun run = load_words(runs + taken % kRunsKept);
      tile = run.data;
      tiles = run.tiles;
      tile_step = run.tile_step;
      tile_bytes = run.tile_bytes;
      stage_bytes = run.stage_bytes;
      ++taken;
    }
    --tiles;
    at = tile;
    tile += tile_step;
    left = tile_bytes;
    return true;
  }
  /// The place of what comes next, once it is there. By the warp.
  __device__ __forceinline__ int next(const SharedPlan& plan) const {
    wait_arrival(arrival(read), parity);
    return ring + read * plan.slot_bytes;
  }
  /// It has been used,
  __device__ __forceinline__ void release(const SharedPlan& plan) {
    if (++read == plan.slots) {
      read = 0;
      parity ^= 1;
    }
    --under_way;
  }
  /// and something else can come: true if there is something.
  __device__ __forceinline__ bool refill(const SharedPlan& plan) {
    if (!has_more(runs_of(plan, static_cast<int>(static_cast<unsigned>(thread_here()) / 32)))) return false;
    const int next = read + under_way, slot = next >= plan.slots ? next - plan.slots : next;
    const int bytes = min(left, stage_bytes);
    copy_bulk(shared_at<std::byte>(ring + slot * plan.slot_bytes), at, bytes, arrival(slot));
    at += bytes;
    left -= bytes;
    ++under_way;
    return true;
  }

 private:
  __device__ __forceinline__ Arrival* arrival(int slot) const { return shared_at<Arrival>(arrivals) + slot; }
};

__device__ __forceinline__ Stream* streams(const SharedPlan& plan) {
  return shared_at<Stream>(plan.streams);
}
/// With the runs that are known by now.
__device__ __forceinline__ Stream load_stream(const SharedPlan& plan) {
  const int warp = thread_here() / 32;
  Stream stream = load_words(streams(plan) + warp);
  stream.found = shared_at<const Lookout>(plan.lookouts)[warp].found;
  return stream;
}
__device__ __forceinline__ void keep_stream(const SharedPlan& plan, const Stream& stream) {
  const int thread = thread_here();
  __syncwarp();
  if (thread % 32 == 0) store_words(streams(plan) + thread / 32, stream);
}

/// By the scout, when all streams are in shared memory: what comes next, of products up to `last`. The others
/// may see it after the next barrier. They may go on filling their rings meanwhile: whoever has taken more
/// than is seen here gets fewer new runs this time.
__device__ __forceinline__ void scout(const StepArguments& step, int last) {
  const int lane = thread_here() % 32;
  if (lane < kWarps)
    look_ahead(step.plan, lane, min(last, step.job_count - 1), streams(step.plan)[lane].taken);
}

/// By every warp: as much under way as fits, of what was known when it loaded its stream.
__device__ __forceinline__ void fill(const StepArguments& step, Stream& stream) {
  if ((step.skipped & kSkipStream) != 0) return;
#pragma unroll 1
  while (stream.under_way < step.plan.slots && stream.refill(step.plan)) {
  }
}

}  // namespace slip::backend::cuda
