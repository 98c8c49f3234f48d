// Weights on their way: what the warps of a block read, from tile to tile and product to product.
//
// What a warp reads of a product is a run: an arithmetic progression of places. The last warp of a block is
// its scout: it looks up the runs of all 16 warps, a lane each, some products ahead, and leaves them in
// shared memory. Every warp copies its own pieces through a ring in shared memory by bulk copies; when a
// product has no more for it, it goes on with the next run, so that weights are under way while blocks wait
// for one another. Between products a stream lies in shared memory, during one in registers: nothing of it
// may have an address.
#pragma once

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

inline constexpr int kScoutWarp = kWarps - 1;
inline constexpr int kRunsKept = 4;    // found and not used up, of every warp
inline constexpr int kSharesKept = 4;  // the product at hand and those the scout knows

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

/// What this block has to do for a product, in shared memory; known before the phase begins, unless it
/// depends on a list that is not there yet.
struct alignas(16) OwnShare {
  int segment = 0;         // its place in shared memory
  int first = 0, end = 0;  // groups of tiles
  int first_run = 0;       // its number among all runs of this block
};

/// The list of matrices that is in shared memory.
struct alignas(16) KnownList {
  int number = -1, matrices = 0;
};

/// How far the scout is; in shared memory.
struct alignas(16) Scout {
  int product = -1;        // the last one it has looked at,
  int group = 0, end = 0;  // of whose groups these are left,
  int passes_left = 0;     // the pass at hand counted
  int first = 0;           // where a pass begins
  int segment = 0;
  int found = 0;  // runs, so far in the step
  int unused = 0;
};

__device__ __forceinline__ const Job& job_at(const SharedPlan& plan, int product) {
  return shared_at<const Job>(plan.jobs)[static_cast<unsigned>(product) % kJobsKept];
}
__device__ __forceinline__ OwnShare& share_at(const SharedPlan& plan, int product) {
  return shared_at<OwnShare>(plan.share)[static_cast<unsigned>(product) % kSharesKept];
}
__device__ __forceinline__ TileRun& run_at(const SharedPlan& plan, int run, int warp) {
  return shared_at<TileRun>(plan.runs)[run % kRunsKept * kWarps + warp];
}

/// What a warp has to do for a run of tiles: of the first run of a product by the scout, and kept in shared
/// memory until the rows are staged, because registers are short then and the stack is far away.
struct alignas(16) TileWork {
  int way;                  // to multiply
  int segment;              // its place
  int parts_log, rows_log;  // results of a tile, per row of the step
  int tile, end, tile_step;
  int chosen;  // of a stack, the place of the slots of its rows; else 0
  Pieces pieces;
  int starts, biases;  // of the staged rows
  int first_row, rows;
  // Where in the share this is, and whether something follows.
  int turn, pass, group, more;
  int listed;  // of a stack's list, the matrix
  int keeps;   // the normed rows, which then need their factors
};
__device__ __forceinline__ TileWork work_of(const SharedPlan& plan, const Job& job, const OwnShare& own,
                                            int warp, int turn, int pass, int group) {
  const Segment& segment = *shared_at<const Segment>(own.segment);
  const Run run = run_from(segment, warp, group, own.end);
  TileWork work;
  work.way = segment.multiplying;
  work.segment = own.segment;
  work.parts_log = segment.parts_log;
  work.rows_log = segment.matrix.subtiles == 1 || segment.matrix.pair ? 4 : 5;
  work.tile_step = kWarps >> work.parts_log;
  work.tile = run.tile;
  work.end = min(segment.matrix.tiles, run.tile + run.count * work.tile_step);
  work.chosen = segment.matrix.count > 1 ? plan.chosen + run.listed * kMaxRows : 0;
  work.pieces = own_pieces(segment, warp);
  work.starts = segment.starts;
  work.biases = segment.biases;
  work.first_row = pass * job.rows_per_pass;
  work.rows = min(job.rows_per_pass, job.rows - work.first_row);
  work.turn = turn;
  work.pass = pass;
  work.group = group + run.count;
  work.more = work.group < own.end || pass + 1 < job.passes ? 1 : 0;
  work.listed = run.listed;
  work.keeps = blockIdx.x == 0 && segment.keep_normed != nullptr && group == own.first ? 1 : 0;
  return work;
}

__device__ __forceinline__ TileWork& work_at(const SharedPlan& plan, int product, int warp) {
  return shared_at<TileWork>(plan.tile_work)[product % kSharesKept * kWarps + warp];
}
__device__ __forceinline__ void keep_work(TileWork* to, const TileWork& work) {
  if (thread_here() % 32 == 0) store_words(to, work);
  __syncwarp();
}
__device__ __forceinline__ StagedRows rows_of(const TileWork& work) {
  return {work.first_row, work.rows, work.listed};
}

/// The next pass or the next product, which may have nothing for this block; false when it is not known yet.
__device__ __forceinline__ bool next_groups(const SharedPlan& plan, int last, Scout& scout) {
  if (scout.passes_left > 1) {
    --scout.passes_left;
    scout.group = scout.first;
    return true;
  }
  if (scout.product >= last) return false;
  const Job& job = job_at(plan, scout.product + 1);
  const Segment& segment = segment_of(job);
  const KnownList list = *shared_at<const KnownList>(plan.list);
  const bool has_share = static_cast<int>(blockIdx.x) < job.blocks;
  if (has_share && segment.matrix.count > 1 && job.list_number != list.number) return false;
  ++scout.product;
  OwnShare own;
  own.segment = static_cast<int>(reinterpret_cast<const std::byte*>(&segment) - shared_memory());
  own.first_run = scout.found;
  if (has_share) {
    const Share share = share_of(segment, list.matrices);
    own.first = share.first;
    own.end = share.end;
  }
  const int lane = thread_here() % 32;
  if (lane == 0) store_words(&share_at(plan, scout.product), own);
  if (lane < kWarps && own.first < own.end)
    store_words(&work_at(plan, scout.product, lane), work_of(plan, job, own, lane, 0, 0, own.first));
  scout.segment = own.segment;
  scout.passes_left = own.first < own.end ? job.passes : 0;
  scout.first = scout.group = own.first;
  scout.end = own.end;
  return true;
}

/// By the scout: runs of products up to `last`, once all warps are done with the first `used` runs.
__device__ __forceinline__ void scout_ahead(const SharedPlan& plan, int last, int used) {
  Scout& kept = *shared_at<Scout>(plan.scout);
  Scout scout = load_words(&kept);
  const int lane = thread_here() % 32;
#pragma unroll 1
  while (scout.found - used < kRunsKept) {
    if (scout.group == scout.end && !next_groups(plan, last, scout)) break;
    if (scout.group == scout.end) continue;
    const Segment& segment = *shared_at<const Segment>(scout.segment);
    const Run groups = run_from(segment, lane % kWarps, scout.group, scout.end);
    const TileRun run = tiles_of(segment, lane % kWarps, groups, shared_at<const int>(plan.active));
    if (lane < kWarps) store_words(&run_at(plan, scout.found, lane), run);
    scout.group += groups.count;
    ++scout.found;
  }
  __syncwarp();
  if (lane == 0) {
    store_words(&kept, scout);
    publish(shared_at<int>(plan.found), scout.found);
  }
  __syncwarp();
}
/// How many runs are used up once product `product` is over.
__device__ __forceinline__ int runs_up_to(const SharedPlan& plan, int product) {
  const Scout& scout = *shared_at<const Scout>(plan.scout);
  return scout.product > product ? share_at(plan, product + 1).first_run : scout.found;
}

/// On lane 0.
__device__ __forceinline__ int found_runs(const SharedPlan& plan) {
  return thread_here() % 32 == 0 ? observe(shared_at<int>(plan.found)) : 0;
}

struct alignas(16) Stream {
  const std::byte* at = nullptr;    // of the tile at hand this comes next,
  int left = 0;                     // so many bytes;
  int tiles = 0;                    // after it so many of the run,
  const std::byte* tile = nullptr;  // from here on
  int tile_step = 0, tile_bytes = 0, stage_bytes = 0;
  int taken = 0;                // runs so far
  int read = 0, under_way = 0;  // in the ring
  uint32_t parity = 0;
  int unused[3] = {};

  /// Starts copies while there is room and something to copy.
  __device__ __forceinline__ void fill(const StepArguments& step) {
    if ((step.skipped & kSkipStream) != 0) return;
#pragma unroll 1
    while (under_way < step.plan.slots) {
      if (left == 0 && !next_tile(step.plan)) return;
      const int write = read + under_way, slot = write >= step.plan.slots ? write - step.plan.slots : write;
      const int bytes = min(left, stage_bytes);
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
  __device__ __forceinline__ void release(const SharedPlan& plan) {
    if (++read == plan.slots) {
      read = 0;
      parity ^= 1;
    }
    --under_way;
  }

 private:
  __device__ static __forceinline__ Arrival* arrival(const SharedPlan& plan, int slot) {
    return shared_at<Arrival>(plan.arrivals) + thread_here() / 32 * plan.slots + slot;
  }
  __device__ static __forceinline__ int place(const SharedPlan& plan, int slot) {
    return plan.ring + (thread_here() / 32 * plan.slots + slot) * plan.slot_bytes;
  }

  /// The next tile, of the next run that has something for this warp where this one is at its end.
  __device__ __forceinline__ bool next_tile(const SharedPlan& plan) {
    while (tiles == 0) {
      // All lanes must see the same, while the scout goes on.
      if (taken == shuffle(found_runs(plan), 0)) return false;
      const TileRun run = load_words(&run_at(plan, taken, thread_here() / 32));
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
__device__ __forceinline__ void fill_stream(const StepArguments& step) {
  Stream stream = load_stream(step.plan);
  stream.fill(step);
  keep_stream(step.plan, stream);
}

}  // namespace slip::backend::cuda
