// Rows times matrices, for 1 to 16 rows: the product phases of a step.
//
// A block of 16 warps takes row tiles of one matrix one after another, `16 / parts` at a time; the warps of a
// tile share its columns (packed_matrix.h). Every warp has a stream of its own that brings its weights
// (stream.h). Then the warps' sums are added in the order of the parts and the epilogue writes the results.
// Weight bytes: each once per pass over the rows; activations: every block reads all rows once from the
// second-level cache. All of this is one function after inlining, on purpose: what passes between its parts
// stays in registers, and there is no room for a stack in the first-level cache beside 227 KB of shared
// memory. A small product takes as long as its instructions one after another, so whatever can be known
// before the phase begins is: by the host, or by the scout.
#pragma once

#include <bit>

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/piece.h"
#include "backend/cuda/kernels/stage_known.h"
#include "backend/cuda/kernels/stream.h"

namespace slip::backend::cuda {

inline constexpr int kSumFloats = 64;  // of a warp, subtile and column tile: [row of four][16 rows]

/// Sums of tiles are kept twice where there is room: one barrier per tile then.
__host__ __device__ constexpr int sum_buffers(int tiles) {
  return tiles == 1 ? 2 : 1;
}

/// Ways to multiply, as Segment::multiplying.
__host__ __device__ constexpr int multiplying(Format format, int groups, int subtiles) {
  const int kind = format == Format::kBf16 ? 4 : (format == Format::kAffine8 ? 2 : 0) + groups - 1;
  return 2 * kind + subtiles - 1;
}

/// One result of a tile: row `row` of the matrix, row `n` of the step. `chosen`: of a stack, the slots of its
/// rows.
__device__ __forceinline__ void put(const Segment& segment, const int8_t* chosen, int row, int n, float y,
                                    float up) {
  const Epilogue epilogue = segment.epilogue;
  int to = n;
  if (chosen != nullptr) {
    const int slot = chosen[n];
    if (slot < 0) return;
    to = n * segment.out_slots + slot;
  }
  if (epilogue != Epilogue::kStore) {
    if (epilogue == Epilogue::kLogits) {
      to = load_fresh(segment.out_rows + n);
      if (to == kNowhere) return;
      if (segment.softcap > 0) y = segment.softcap * tanhf(y / segment.softcap);
      if (to == kToPick) {
        segment.stay[n * static_cast<int>(segment.stay_stride) + row] = y;
        return;
      }
    } else {
      const bool gated = epilogue == Epilogue::kGated;
      if (!gated) up = load_fresh(segment.other + n * static_cast<int>(segment.other_stride) + row);
      y = activate(y, gated ? segment.activation : model::Activation::kGeluTanh) * up;
    }
  }
  segment.out[to * segment.out_stride + row] = y;
}

/// The sum of up to 16 parts, in their order; eight of them are under way before the first is added.
__device__ __forceinline__ float sum_parts(const float* from, int parts, int stride) {
  constexpr int kAtOnce = 8;
  float sum = 0;
#pragma unroll
  for (int first = 0; first < kWarps; first += kAtOnce) {
    if (first > 0 && parts <= first) break;
    float part[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (parts > static_cast<int>(std::bit_floor(static_cast<unsigned>(i))))
        part[i] = from[(first + i) * stride];
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i == 0) {
        sum = part[0];
      } else if (parts > static_cast<int>(std::bit_floor(static_cast<unsigned>(i)))) {
        sum += part[i];
      }
    }
  }
  return sum;
}

/// The norm's factor of rows that were kept before it was known.
__device__ __noinline__ inline void finish_kept(int segment_place, StagedRows rows, const float* partial) {
  const Segment& segment = *shared_at<const Segment>(segment_place);
  for (int n = 0; n < rows.count; ++n) {
    const float scale = row_factor(partial, n, segment.in.cols, segment.in.epsilon);
    float* row = segment.keep_normed + (rows.first + n) * segment.keep_normed_stride;
    for (int col = static_cast<int>(threadIdx.x) * 4; col < segment.in.cols; col += kTurnCols) {
      for (int i = 0; i < 4 && col + i < segment.in.cols; ++i) row[col + i] *= scale;
    }
  }
}

/// The norms of a product to come, to the second-level cache: every block a few lines, by one of its warps.
__device__ inline void prefetch_norms(const Job& job) {
  constexpr int kLine = 32;  // floats
  const int i = static_cast<int>(threadIdx.x) % 32 / 2;
  if (i >= job.segment_count) return;
  const Segment& segment = job.segments[i];
  const float* norm = threadIdx.x % 2 == 0 ? segment.norm : segment.in.branch_norm;
  if (norm == nullptr) return;
  for (int at = static_cast<int>(blockIdx.x) * kLine; at < segment.in.cols;
       at += static_cast<int>(gridDim.x) * kLine)
    prefetch(norm + at);
}

/// A warp's sums of a tile to shared memory, low parts added to high ones.
template <int kSubtiles, int kTiles>
__device__ __forceinline__ void leave_sums(float* warp_sums, float (&mine)[kSubtiles][kTiles][4]) {
  const int lane = thread_here() % 32;
  float* to = warp_sums + lane % 4 * 32 + lane / 4;
#pragma unroll
  for (int s = 0; s < kSubtiles; ++s) {
#pragma unroll
    for (int column = 0; column < kTiles; ++column) {
      float(&sum)[4] = mine[s][column];
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] += shuffle_xor(sum[j], 2);
      if (lane % 4 < 2) {
        float* at = to + (s * kTiles + column) * kSumFloats;
        at[0] = sum[0];
        at[16] = sum[1];
        at[8] = sum[2];
        at[24] = sum[3];
      }
    }
  }
}

/// The sums of a tile's warps, in the order of the parts, by those warps. `factor`: of the first row that
/// this thread has a result of.
template <int kSubtiles, int kTiles>
__device__ __forceinline__ void finish_tile(const Segment& segment, const TileWork& work, const float* sums,
                                            const float* partial, int tile, float factor,
                                            const int8_t* chosen) {
  const int threads = 32 << work.parts_log, parts = 1 << work.parts_log, total = work.rows << work.rows_log;
  constexpr int kTileSums = kSubtiles * kTiles * kSumFloats;
#pragma unroll 1
  for (int i = thread_here() & (threads - 1); i < total; i += threads) {
    const int n = i >> work.rows_log, r = i & ((1 << work.rows_log) - 1), row = (tile << work.rows_log) + r;
    if (i >= threads && segment.normed) factor = row_factor(partial, n, segment.in.cols, segment.in.epsilon);
    if (row >= segment.matrix.rows) continue;
    const float* from = sums + (r / 16 * kTiles + n / 4) * kSumFloats + n % 4 * 16 + r % 16;
    const float y = sum_parts(from, parts, kTileSums) * factor;
    float up = 0;
    if (kSubtiles == 2 && work.rows_log == 4)  // of a pair
      up = sum_parts(from + kTiles * kSumFloats, parts, kTileSums) * factor;
    put(segment, chosen, row, work.first_row + n, y, up);
  }
}

/// A run of tiles times the staged rows, and what becomes of the sums.
template <Format kFormat, int kGroups, int kSubtiles, int kTiles>
__device__ __forceinline__ void multiply_tiles(const StepArguments& step, const Segment& segment,
                                               const TileWork& work, Stream& stream) {
  using Work = Piece<kFormat, kGroups, kSubtiles, kTiles>;
  constexpr int kStagePieces = 2 / kSubtiles, kTileSums = kSubtiles * kTiles * kSumFloats;
  const int thread = thread_here(), lane = thread % 32;
  const int warp = thread / 32, threads = 32 << work.parts_log, slot = warp >> work.parts_log,
            first = thread & (threads - 1);
  const Stage stage{step.plan.work, work.starts, work.biases, 0};
  const auto* chosen = work.chosen > 0 ? shared_at<const int8_t>(work.chosen) : nullptr;
  const bool multiplies = (step.skipped & kSkipMultiply) == 0;
  const bool finishes = first < work.rows << work.rows_log;  // some result is this thread's
  const bool warp_finishes = (first & ~31) < work.rows << work.rows_log;
  const auto* partial = shared_at<const float>(step.plan.partial) + kWarps * kMaxRows;
  float factor = 1;
  float* sums = shared_at<float>(step.plan.sums);
#pragma unroll 1
  for (int tile = work.tile; tile < work.end; tile += work.tile_step) {
    const bool last = tile + work.tile_step >= work.end;
    float mine[kSubtiles][kTiles][4] = {};
#pragma unroll 1
    for (int piece = work.pieces.begin; piece < work.pieces.end; piece += kStagePieces) {
      const int place = stream.next(step);
      if (multiplies) {
        Work::multiply(lane, place, piece, stage, mine);
        if (kStagePieces == 2 && piece + 1 < work.pieces.end)
          Work::multiply(lane, place + Work::kBytes, piece + 1, stage, mine);
      }
      stream.release(step.plan);
      // After the last one others wait for this warp's sums: that place in the ring is filled later.
      if (!last || piece + kStagePieces < work.pieces.end) stream.fill(step);
    }
    leave_sums<kSubtiles, kTiles>(sums + warp * kTileSums, mine);
    if (tile == work.tile && segment.normed && finishes)  // while the others multiply
      factor = row_factor(partial, first >> work.rows_log, segment.in.cols, segment.in.epsilon);
    if (work.parts_log == 0) {
      __syncwarp();
    } else if (last && !warp_finishes) {
      arrive_some(1 + slot, threads);
      break;
    } else {
      sync_some(1 + slot, threads);
    }
    if (finishes)
      finish_tile<kSubtiles, kTiles>(segment, work, sums + (slot << work.parts_log) * kTileSums, partial,
                                     tile, factor, chosen);
    // With one buffer, or a warp alone with its own, nobody may overtake.
    if (work.parts_log == 0) {
      __syncwarp();
    } else if (sum_buffers(kTiles) == 1 && !last) {
      sync_some(1 + slot, threads);
    }
    if (sum_buffers(kTiles) == 2)
      sums = shared_at<float>(step.plan.sums) +
             (sums == shared_at<float>(step.plan.sums) ? kWarps * kTileSums : 0);
  }
  // Warps with no results to write have time for it; the others do it when they have arrived.
  if (!warp_finishes) stream.fill(step);
}

/// The same for whatever format the matrix has.
template <int kTiles>
__device__ __forceinline__ void multiply_run(const StepArguments& step, const TileWork& work,
                                             Stream& stream) {
  const Segment& segment = *shared_at<const Segment>(work.segment);
  const auto with = [&]<Format kFormat, int kGroups, int kSubtiles>() {
    multiply_tiles<kFormat, kGroups, kSubtiles, kTiles>(step, segment, work, stream);
  };
  switch (uniform(work.way)) {
    case multiplying(Format::kAffine4, 1, 1): return with.template operator()<Format::kAffine4, 1, 1>();
    case multiplying(Format::kAffine4, 1, 2): return with.template operator()<Format::kAffine4, 1, 2>();
    case multiplying(Format::kAffine4, 2, 1): return with.template operator()<Format::kAffine4, 2, 1>();
    case multiplying(Format::kAffine4, 2, 2): return with.template operator()<Format::kAffine4, 2, 2>();
    case multiplying(Format::kAffine8, 1, 1): return with.template operator()<Format::kAffine8, 1, 1>();
    case multiplying(Format::kAffine8, 1, 2): return with.template operator()<Format::kAffine8, 1, 2>();
    case multiplying(Format::kAffine8, 2, 1): return with.template operator()<Format::kAffine8, 2, 1>();
    case multiplying(Format::kAffine8, 2, 2): return with.template operator()<Format::kAffine8, 2, 2>();
    case multiplying(Format::kBf16, 0, 1): return with.template operator()<Format::kBf16, 0, 1>();
    default: return with.template operator()<Format::kBf16, 0, 2>();
  }
}

/// The last block that is done with the router's segment chooses the experts. All are places in shared
/// memory.
__device__ __noinline__ inline void route_when_last(int job_place, int flag, int work) {
  const Job& job = *shared_at<const Job>(job_place);
  auto* last = shared_at<int>(flag);
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto blocks = static_cast<uint32_t>(job.segments[job.route.segment].blocks);
    *last = count_finished(job.route.finished) + 1 == blocks ? 1 : 0;
    if (*last != 0) *job.route.finished = 0;
  }
  __syncthreads();
  if (*last != 0) route(job.route, work);
}

/// The list of matrices, to shared memory. Most of it is under way before it is known how long it is.
__device__ __forceinline__ void learn_list(const Job& job, const SharedPlan& plan) {
  const MatrixList& list = *job.list;
  auto* active = shared_at<int>(plan.active);
  auto* chosen = shared_at<int8_t>(plan.chosen);
  const int thread = thread_here();
  const int matrix = load_fresh(&list.matrix[thread]);
  static_assert(kMaxListed >= kBlockThreads);
  const int slot = load_fresh(&list.slot[0][0] + thread);
  const int matrices = load_fresh(&list.count);
  if (thread < matrices) active[thread] = matrix;
  if (thread < matrices * kMaxRows) chosen[thread] = static_cast<int8_t>(slot);
#pragma unroll 1
  for (int i = thread + kBlockThreads; i < matrices * kMaxRows; i += kBlockThreads)
    chosen[i] = static_cast<int8_t>(load_fresh(&list.slot[0][0] + i));
  if (thread == 0) *shared_at<KnownList>(plan.list) = {job.list_number, matrices};
  __syncthreads();
}

/// While others finish product `product`: where the weights of those after it are, and their norms into the
/// second-level cache. Needs the last of the jobs that are kept. `turn`: the run of the product that is not
/// used up yet; -1 = all are.
__device__ __forceinline__ void look_ahead(const StepArguments& step, int product, int turn) {
  const int last = min(product + kJobsKept - 1, step.job_count - 1), warp = uniform(thread_here() / 32);
  if (warp == kScoutWarp) {
    scout_ahead(step.plan, last,
                turn >= 0 ? share_at(step.plan, product).first_run + turn : runs_up_to(step.plan, product));
  } else if (warp == kScoutWarp - 1) {
    prefetch_norms(job_at(step.plan, last));
  }
}

/// This block's share of a product, for all rows: pass by pass, run by run. `now`: the phase, if the other
/// blocks have not been met yet, else -1.
template <int kTiles>
__device__ __forceinline__ void run_share(const StepArguments& step, int now, int product) {
  const SharedPlan& plan = step.plan;
  TileWork* kept = &work_at(plan, product, thread_here() / 32);
  const OwnShare share = load_words(&share_at(plan, product));
  if (uniform(share.first == share.end ? 1 : 0) != 0) {
    if (now >= 0) meet(step, now);
    copy_wait<0>();
    __syncthreads();
    look_ahead(step, product, -1);
    return;
  }
  bool stages = true;
#pragma unroll 1
  while (true) {
    if (stages) stage_rows<kTiles>(step, now, uniform(kept->segment), rows_of(*kept));
    now = -1;
    Stream stream = load_stream(plan);
    copy_wait<0>();  // the last of the jobs that are kept, which was on its way
    __syncthreads();
    const TileWork work = load_words(kept);
    // What was left to fill, or of a run that was found after the stream had looked.
    if (work.turn > 0 || stream.under_way == 0) {
      stream.fill(step);
      __syncwarp();
    }
    if (uniform(work.keeps) != 0)
      finish_kept(work.segment, rows_of(work), shared_at<const float>(plan.partial) + kWarps * kMaxRows);
    multiply_run<kTiles>(step, work, stream);
    keep_stream(plan, stream);
    look_ahead(step, product, kept->turn);
    if (uniform(kept->more) == 0) return;
    // The next run of the pass, whose rows may be others, or the next pass.
    const OwnShare own = load_words(&share_at(plan, product));
    const bool next_pass = kept->group == own.end;
    const TileWork next = work_of(plan, job_at(plan, product), own, thread_here() / 32, kept->turn + 1,
                                  kept->pass + (next_pass ? 1 : 0), next_pass ? own.first : kept->group);
    stages = uniform(next_pass || shared_at<const Segment>(own.segment)->in.slots > 0 ? 1 : 0) != 0;
    __syncthreads();  // the rows before have been used
    keep_work(kept, next);
  }
}

/// Product number `product` of the step, as phase `now`; its job and the next one are in shared memory, one
/// more is on its way.
template <int kTiles>
__device__ __forceinline__ void run_product(const StepArguments& step, int now, int product) {
  const SharedPlan& plan = step.plan;
  const Job& job = job_at(plan, product);
  const bool learns =
      uniform(job.stacked && shared_at<const KnownList>(plan.list)->number != job.list_number ? 1 : 0) != 0;
  const bool routes = uniform(job.route.segment) >= 0;
  // Whoever multiplies with none of the list's matrices is in no hurry to know it.
  const bool waits = learns && uniform(segment_of(job).matrix.count) > 1;
  if (waits) {
    meet(step, now);
    learn_list(job, plan);
    if (thread_here() / 32 == kScoutWarp)
      scout_ahead(plan, min(product + 1, step.job_count - 1), runs_up_to(plan, product - 1));
    __syncthreads();
    fill_stream(step);
  }
  run_share<kTiles>(step, waits ? -1 : now, product);
  if (learns && !waits) {
    __syncthreads();
    learn_list(job, plan);
    // The next product's share must be known at its beginning, before blocks meet.
    look_ahead(step, product, -1);
  }
  if (routes && static_cast<int>(blockIdx.x) < job.blocks &&
      &segment_of(job) == &job.segments[job.route.segment])
    route_when_last(static_cast<int>(reinterpret_cast<const std::byte*>(&job) - shared_memory()),
                    plan.partial, plan.work);
}

}  // namespace slip::backend::cuda
