// Weights on their way: what the warps of a block read, from tile to tile and product to product.
//
// What a warp reads of a product is a run: one stretch of memory (packed_matrix.h), or of a stack one of each
// matrix, which are found when the list of matrices is known. It comes through a ring in shared memory by
// bulk copies, stage by stage, of which the warp starts one for every one it has used; when a run has no more
// for it, it goes on with the next, so that weights of the next products are under way before this one is
// over. Between products every warp fills its ring up; and one warp, the scout, looks up
// for all 16, a lane each, what comes after that, and leaves the runs in shared memory: the same instructions
// in all warps would cost 16 times as much. Then a stream lies in shared memory, during a product in
// registers: nothing of it may have an address.
//
// A ring is full, or nothing more is known, when a product begins to multiply; so the place that is filled is
// always the one that was used just now, and a stage costs some 25 instructions beside the multiplying.
#pragma once

#include "backend/cuda/kernels/phase.h"
#include "backend/cuda/kernels/stage.h"

namespace slip::backend::cuda {

inline constexpr int kRunsKept = 4;  // found and not used up, of every warp

/// All tiles up to `end`, or as many matrices as there is room for rows of.
__device__ __forceinline__ Run run_from(const Segment& segment, int tile, int end) {
  Run run{0, tile, end - tile};
  if (segment.matrix.count > 1) {
    const int tiles = segment.matrix.tiles;
    run.listed = quotient(tile, tiles);
    run.tile = tile - run.listed * tiles;
    if (segment.space.rows_apart > 0) run.count = min(run.count, segment.rows_kept * tiles - run.tile);
  }
  return run;
}

__device__ __forceinline__ const OwnJob& job_at(const SharedPlan& plan, int product) {
  return *shared_at<const OwnJob>(job_place(plan, product));
}
__device__ __forceinline__ const Duty& duty_at(const SharedPlan& plan, int product) {
  return shared_at<const Duty>(plan.duties)[static_cast<unsigned>(product) % kDutiesKept];
}

/// What a warp reads of a run: `left` bytes, those of a tile in copies of `stage_bytes` and a shorter one. Of
/// a stack `data` is that of its first matrix: which one is read is known when the list `list` is.
struct alignas(16) TileRun {
  const std::byte* data = nullptr;
  int left = 0, tile_bytes = 0, stage_bytes = 0;
  // Of a stack: from one matrix to the next, and of a matrix what all tiles have and the first ones that are
  // not read; then it goes on with the next one of the list.
  int matrix_bytes = 0, part_bytes = 0, skipped = 0;
  int listed = 0, list = 0;
  int unused[2] = {};
};
__device__ __forceinline__ TileRun tiles_of(const Segment& segment, int warp, const Run& tiles, int list) {
  const PackedMatrix& matrix = segment.matrix;
  const WarpShare own = warp_share(segment, warp, tiles.count);
  const int from = own.piece * matrix.piece_bytes;
  TileRun run;
  run.tile_bytes = min(own.piece_end * matrix.piece_bytes, matrix.tile_bytes) - from;
  run.left = run.tile_bytes * own.count;
  run.stage_bytes = matrix.subtiles == 1 ? 2 * matrix.piece_bytes : matrix.piece_bytes;
  run.data = matrix.data + static_cast<int64_t>(from) * matrix.tiles;
  const int first = tiles.tile + own.first;
  if (matrix.count == 1) {
    run.data += static_cast<int64_t>(run.tile_bytes) * first;
  } else {
    const int further = quotient(first, matrix.tiles);
    run.matrix_bytes = static_cast<int>(matrix.matrix_bytes());
    run.part_bytes = run.tile_bytes * matrix.tiles;
    run.skipped = run.tile_bytes * (first - further * matrix.tiles);
    run.listed = tiles.listed + further + matrix_of_bunch(segment, warp);
    run.list = list;
  }
  return run;
}

/// How far a warp has looked; in shared memory.
struct alignas(16) Lookout {
  int product = -1;       // the last one it has looked at,
  int tile = 0, end = 0;  // of whose tiles these are left,
  int passes_left = 0;    // the pass at hand counted
  int first = 0;          // where a pass begins
  int found = 0;          // runs, so far in the step
  int unused[2] = {};
};

/// The next pass or the next product, which may have nothing for this block; false when it is not known yet.
__device__ __forceinline__ bool next_tiles(const SharedPlan& plan, int last, Lookout& at) {
  if (at.passes_left > 1) {
    --at.passes_left;
    at.tile = at.first;
    return true;
  }
  if (at.product >= last) return false;
  const OwnJob& job = job_at(plan, at.product + 1);
  const Duty& duty = duty_at(plan, at.product + 1);
  if (!duty.known()) return false;
  ++at.product;
  at.first = at.tile = duty.first;
  at.end = duty.end;
  at.passes_left = duty.first < duty.end ? job.frame.passes : 0;
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
    if (at.tile == at.end && !next_tiles(plan, last, at)) break;
    if (at.tile == at.end) continue;
    const OwnJob& job = job_at(plan, at.product);
    const Run tiles = run_from(job.segment, at.tile, at.end);
    const TileRun run = tiles_of(job.segment, warp, tiles, job.frame.list_number);
    at.tile += tiles.count;
    if (run.left == 0) continue;
    store_words(runs_of(plan, warp) + at.found % kRunsKept, run);
    ++at.found;
  }
  store_words(kept, at);
}

/// A warp's ring: the arrivals of its places, and behind them the places, on 128 bytes where there is room.
inline constexpr int kArrivalBytes = 64;  // and behind them how many runs its warp says it has taken
__host__ __device__ constexpr int taken_place(int ring) {
  return ring + kArrivalBytes - 32;
}
__host__ __device__ constexpr int ring_bytes(const SharedPlan& plan) {
  return plan.arrival_bytes + plan.slots * plan.slot_bytes;
}

__device__ __forceinline__ int ring_place(const SharedPlan& plan, int warp) {
  return plan.ring + warp * ring_bytes(plan);
}

struct alignas(16) Stream {
  const std::byte* at = nullptr;  // of the run at hand this comes next,
  int left = 0;                   // so many bytes,
  int tile_left = 0;              // so many of them of the same tile,
  int tile_bytes = 0, stage_bytes = 0;
  int found = 0, taken = 0;  // runs so far
  int ring = 0;              // in shared memory
  int slot = 0;              // of it, the place to read next,
  uint32_t parity = 0;       // and how often it has been filled
  int under_way = 0;         // places

  /// Waits for what comes next, and says where it is. By the warp.
  __device__ __forceinline__ int next(const SharedPlan& plan) const {
    wait_arrival(arrival(slot), parity);
    return place(plan, slot);
  }
  /// It has been used, and something else can come to its place. All others are under way, or nothing is
  /// left. `goes_on`: look for another run where this one is at its end.
  __device__ __forceinline__ void pass_on(const SharedPlan& plan, bool goes_on) {
    if (left == 0) [[unlikely]] {
      if (!goes_on || under_way != plan.slots || !next_run(plan)) --under_way;
    }
    copy_to(plan, slot);
    ++slot;
    const bool wraps = slot == plan.slots;
    parity ^= wraps ? plan.parity_flip : 0;
    slot = wraps ? 0 : slot;
  }
  /// As much under way as fits, of what is known.
  __device__ __forceinline__ void fill(const SharedPlan& plan) {
#pragma unroll 1
    while (under_way < plan.slots && (left > 0 || next_run(plan))) {
      const int next = slot + under_way;
      copy_to(plan, next >= plan.slots ? next - plan.slots : next);
      ++under_way;
    }
    __syncwarp();
  }

 private:
  __device__ __forceinline__ Arrival* arrival(int which) const {
    return shared_at<Arrival>(ring) + which;
  }
  __device__ __forceinline__ int place(const SharedPlan& plan, int which) const {
    return ring + plan.arrival_bytes + which * plan.slot_bytes;
  }
  __device__ __forceinline__ bool next_run(const SharedPlan& plan) {
    if (taken == found) return false;
    const auto warp = static_cast<int>(static_cast<unsigned>(thread_here()) / 32);
    TileRun* kept = runs_of(plan, warp) + static_cast<unsigned>(taken) % kRunsKept;
    const TileRun run = load_words(kept);
    at = run.data;
    left = run.left;
    if (run.matrix_bytes != 0 && !enter_matrix(plan, run, kept)) return false;
    taken += left == run.left ? 1 : 0;
    tile_left = tile_bytes = run.tile_bytes;
    stage_bytes = run.stage_bytes;
    return true;
  }
  /// Of a stack: what the run has of the next matrix; false when it is not known which one that is. The run
  /// is used up with its last one.
  __device__ __forceinline__ bool enter_matrix(const SharedPlan& plan, const TileRun& run, TileRun* kept) {
    if (*shared_at<const int>(plan.list) != run.list) {
      left = 0;
      return false;
    }
    at +=
        static_cast<int64_t>(shared_at<const int>(plan.active)[run.listed]) * run.matrix_bytes + run.skipped;
    left = min(run.left, run.part_bytes - run.skipped);
    if (left == run.left) return true;
    __syncwarp();  // all lanes have read it
    if (thread_here() % 32 == 0) {
      kept->left = run.left - left;
      kept->skipped = 0;
      kept->listed = run.listed + 1;
    }
    __syncwarp();
    return true;
  }
  /// What comes next, if there is something.
  __device__ __forceinline__ void copy_to(const SharedPlan& plan, int which) {
    const int bytes = min(tile_left, stage_bytes);
    copy_bulk(shared_at<std::byte>(place(plan, which)), at, bytes, arrival(which));
    at += bytes;
    left -= bytes;
    tile_left -= bytes;
    tile_left = tile_left == 0 ? min(left, tile_bytes) : tile_left;
  }
};

__device__ __forceinline__ Stream* streams(const SharedPlan& plan) {
  return shared_at<Stream>(plan.streams);
}
/// Of what a warp brings beside weights: behind the arrivals of its ring's places.
__device__ __forceinline__ Arrival* rows_arrival(const SharedPlan& plan, int warp) {
  return shared_at<Arrival>(streams(plan)[warp].ring + kArrivalBytes) - 1;
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
/// Tells the scout how many runs this warp has taken. Before a barrier of the block, after which the scout
/// may look until the warp multiplies again.
__device__ __forceinline__ void tell_taken(const Stream& stream) {
  if (thread_here() % 32 == 0) *shared_at<int>(taken_place(stream.ring)) = stream.taken;
}

/// By the scout, after all warps have told what they have taken: what comes next, of products up to `last`.
/// The others may see it after the next barrier. They may go on filling their rings meanwhile: whoever has
/// taken more than he told gets fewer new runs this time.
__device__ __forceinline__ void scout(const StepArguments& step, int last) {
  const int lane = thread_here() % 32;
  if (lane < kWarps)
    look_ahead(step.plan, lane, min(last, step.streamed - 1),
               *shared_at<const int>(taken_place(ring_place(step.plan, lane))));
}

/// By every warp: what has become known is put under way.
__device__ __forceinline__ void fill_now(const StepArguments& step) {
  Stream stream = load_stream(step.plan);
  stream.fill(step.plan);
  keep_stream(step.plan, stream);
  __syncwarp();
}
/// By every warp for itself, while the scout does not look: what can be known of products up to `last` is put
/// under way at once. `arguments`: where StepArguments are. Not inlined: most products are looked up by the
/// scout.
__device__ __noinline__ inline void look_now(int arguments, int last) {
  const StepArguments& step = *shared_at<const StepArguments>(arguments);
  const SharedPlan& plan = step.plan;
  const int warp = thread_here() / 32;
  if (thread_here() % 32 == 0)
    look_ahead(plan, warp, min(last, step.streamed - 1), streams(plan)[warp].taken);
  __syncwarp();
  fill_now(step);
}
/// What was known when a warp kept its stream is put under way: the scout may be looking further meanwhile.
__device__ __forceinline__ void fill_kept(const StepArguments& step) {
  Stream stream = load_words(streams(step.plan) + thread_here() / 32);
  stream.fill(step.plan);
  keep_stream(step.plan, stream);
}

}  // namespace slip::backend::cuda
