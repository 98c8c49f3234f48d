// Rows times matrices, for 1 to 16 rows: the product phases of a step.
//
// A block of 16 warps takes row tiles of one matrix one after another, `16 / parts` at a time; the warps of a
// tile share its columns (packed_matrix.h). Every warp has a stream of its own that brings its weights
// (stream.h). Then the warps' sums are added in the order of the parts and the epilogue writes the results.
// Weight bytes: each once per pass over the rows; activations: every block reads all rows once from the
// second-level cache. All of this is one function after inlining, on purpose: what passes between its parts
// stays in registers, and there is no room for a stack in the first-level cache beside 227 KB of shared
// memory.
#pragma once

#include <bit>

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/piece.h"
#include "backend/cuda/kernels/stream.h"

namespace slip::backend::cuda {

inline constexpr int kSumFloats = 64;  // of a warp, subtile and column tile: [row of four][16 rows]

/// Sums of tiles are kept twice where there is room: one barrier per tile then.
__host__ __device__ constexpr int sum_buffers(int tiles) {
  return tiles == 1 ? 2 : 1;
}

/// What the results of a tile need to know, read before the sums are awaited.
struct Target {
  float* out;
  int64_t out_stride;
  Epilogue epilogue;
  bool pair;
};

/// One result of a tile: row `row` of the matrix, row `n` of the step.
__device__ __forceinline__ void put(const Segment& segment, const Target& target, const Job& job, int listed,
                                    int row, int n, float y, float up) {
  int64_t to = n;
  if (segment.matrix.count > 1) {
    const int slot = load_fresh(&job.list->slot[listed][n]);
    if (slot < 0) return;
    to = static_cast<int64_t>(n) * segment.out_slots + slot;
  }
  if (target.epilogue == Epilogue::kLogits) {
    to = load_fresh(segment.out_rows + n);
    if (to == kNowhere) return;
    if (segment.softcap > 0) y = segment.softcap * tanhf(y / segment.softcap);
    if (to == kToPick) {
      segment.stay[n * segment.stay_stride + row] = y;
      return;
    }
  } else if (target.epilogue != Epilogue::kStore) {
    const bool gated = target.epilogue == Epilogue::kGated;
    if (!gated) up = load_fresh(segment.other + n * segment.other_stride + row);
    y = activate(y, gated ? segment.activation : model::Activation::kGeluTanh) * up;
  }
  target.out[to * target.out_stride + row] = y;
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

/// The sums of a tile's warps, in the order of the parts, by those warps.
template <int kTiles>
__device__ __forceinline__ void finish_tile(const Segment& segment, const Target& target, const Job& job,
                                            const float* sums, int parts_log, int subtiles, int listed,
                                            int tile, float factor, const StagedRows& rows) {
  const int threads = 32 << parts_log, own = thread_here() & (threads - 1);
  const int rows_log = subtiles == 1 || target.pair ? 4 : 5, total = rows.count << rows_log;
  const int tile_sums = subtiles * kTiles * kSumFloats;
#pragma unroll 1
  for (int start = 0; start < total; start += threads) {
    const int i = start + own, n = i < total ? i >> rows_log : 0, r = i & ((1 << rows_log) - 1),
              row = (tile << rows_log) + r;
    const float scale = segment.normed ? shuffle(factor, n) : 1.0f;
    if (i >= total || row >= segment.matrix.rows) continue;
    const float* from = sums + (r / 16 * kTiles + n / 4) * kSumFloats + n % 4 * 16 + r % 16;
    const float y = sum_parts(from, 1 << parts_log, tile_sums) * scale;
    const float up =
        target.pair ? sum_parts(from + kTiles * kSumFloats, 1 << parts_log, tile_sums) * scale : 0;
    put(segment, target, job, listed, row, rows.first + n, y, up);
  }
}

/// The norm's factor of rows that were kept before it was known.
__device__ inline void finish_kept(const Segment& segment, StagedRows rows, float factor) {
  for (int n = 0; n < rows.count; ++n) {
    const float scale = shuffle(factor, n);
    float* row = segment.keep_normed + (rows.first + n) * segment.keep_normed_stride;
    for (int col = static_cast<int>(threadIdx.x) * 4; col < segment.in.cols; col += kTurnCols) {
      for (int i = 0; i < 4 && col + i < segment.in.cols; ++i) row[col + i] *= scale;
    }
  }
}

/// The norms of a product to come, to the second-level cache: every block a few lines.
__device__ inline void prefetch_norms(const Job& job) {
  constexpr int kLine = 32;  // floats
  const int i = static_cast<int>(threadIdx.x) / 2;
  if (i >= job.segment_count) return;
  const Segment& segment = job.segments[i];
  const float* norm = threadIdx.x % 2 == 0 ? segment.norm : segment.in.branch_norm;
  if (norm == nullptr) return;
  for (int at = static_cast<int>(blockIdx.x) * kLine; at < segment.in.cols;
       at += static_cast<int>(gridDim.x) * kLine)
    prefetch(norm + at);
}

/// This warp's pieces of a tile times the staged rows.
template <Format kFormat, int kGroups, int kSubtiles, int kTiles>
__device__ __forceinline__ void multiply_pieces(const StepArguments& step, const Pieces& pieces,
                                                const Stage& stage, Stream& stream,
                                                float (&mine)[2][kTiles][4]) {
  using Work = Piece<kFormat, kGroups, kSubtiles, kTiles>;
  constexpr int kStagePieces = 2 / kSubtiles;
  const int lane = thread_here() % 32;
  const bool multiplies = (step.skipped & kSkipMultiply) == 0;
  float sums[kSubtiles][kTiles][4] = {};
#pragma unroll 1
  for (int piece = pieces.begin; piece < pieces.end; piece += kStagePieces) {
    const int place = stream.next(step);
    if (multiplies) {
      Work::multiply(lane, place, piece, stage, sums);
      if (kStagePieces == 2 && piece + 1 < pieces.end)
        Work::multiply(lane, place + Work::kBytes, piece + 1, stage, sums);
    }
    stream.release(step);
  }
#pragma unroll
  for (int s = 0; s < kSubtiles; ++s) {
#pragma unroll
    for (int column = 0; column < kTiles; ++column) {
#pragma unroll
      for (int j = 0; j < 4; ++j) mine[s][column][j] = sums[s][column][j];
    }
  }
}

/// The same for whatever format the matrix has.
template <int kTiles>
__device__ __forceinline__ void multiply_any(const StepArguments& step, const Segment& segment,
                                             Stream& stream, float (&mine)[2][kTiles][4]) {
  const PackedMatrix& matrix = segment.matrix;
  const Pieces pieces = own_pieces(segment, thread_here() / 32);
  const Stage stage = stage_at(step.plan.work, matrix, kTiles);
  const auto multiply = [&]<Format kFormat, int kGroups>() {
    if (matrix.subtiles == 2) {
      multiply_pieces<kFormat, kGroups, 2, kTiles>(step, pieces, stage, stream, mine);
    } else {
      multiply_pieces<kFormat, kGroups, 1, kTiles>(step, pieces, stage, stream, mine);
    }
  };
  if (matrix.format == Format::kAffine4) {
    matrix.groups == 1 ? multiply.template operator()<Format::kAffine4, 1>()
                       : multiply.template operator()<Format::kAffine4, 2>();
  } else if (matrix.format == Format::kAffine8) {
    matrix.groups == 1 ? multiply.template operator()<Format::kAffine8, 1>()
                       : multiply.template operator()<Format::kAffine8, 2>();
  } else {
    multiply.template operator()<Format::kBf16, 0>();
  }
}

/// A warp's sums of a tile to shared memory, low parts added to high ones.
template <int kTiles>
__device__ __forceinline__ void leave_sums(float* warp_sums, int subtiles, float (&mine)[2][kTiles][4]) {
  const int lane = thread_here() % 32;
  float* to = warp_sums + lane % 4 * 32 + lane / 4;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    if (s >= subtiles) break;
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

/// A run of tiles times the staged rows, and what becomes of the sums. `buffer`: of the sums, the one that is
/// free. The format is looked at once per tile, so that what follows the multiplications is there once: a
/// step's instructions do not fit into their caches.
template <int kTiles>
__device__ __forceinline__ void multiply_run(const StepArguments& step, const Job& job,
                                             const Segment& segment, const Run& run, const StagedRows& rows,
                                             float factor, Stream& stream, int& buffer) {
  int tile = run.tile;
  const int end = min(segment.matrix.tiles, tile + run.count * (kWarps >> segment.parts_log));
#pragma unroll 1
  while (tile < end) {
    float mine[2][kTiles][4] = {};
    multiply_any<kTiles>(step, segment, stream, mine);
    const int warp = thread_here() / 32, subtiles = segment.matrix.subtiles, parts_log = segment.parts_log;
    const int tile_sums = subtiles * kTiles * kSumFloats, slot = warp >> parts_log;
    float* sums = shared_at<float>(step.plan.sums) + buffer * kWarps * tile_sums;
    if (sum_buffers(kTiles) == 2) buffer ^= 1;
    leave_sums<kTiles>(sums + warp * tile_sums, subtiles, mine);
    const Target target{segment.out, segment.out_stride, segment.epilogue, segment.matrix.pair};
    parts_log == 0 ? __syncwarp() : sync_some(1 + slot, 32 << parts_log);
    finish_tile<kTiles>(segment, target, job, sums + (slot << parts_log) * tile_sums, parts_log, subtiles,
                        run.listed, tile, factor, rows);
    tile += kWarps >> parts_log;
    // With one buffer, or a warp alone with its own, nobody may overtake.
    if (parts_log == 0) {
      __syncwarp();
    } else if (sum_buffers(kTiles) == 1) {
      sync_some(1 + slot, 32 << parts_log);
    }
  }
}

/// The last block that is done with the router's segment chooses the experts.
__device__ inline void route_when_last(const Job& job, const SharedPlan& plan) {
  auto* last = shared_at<int>(plan.partial);
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto blocks = static_cast<uint32_t>(job.segments[job.route.segment].blocks);
    *last = count_finished(job.route.finished) + 1 == blocks ? 1 : 0;
    if (*last != 0) *job.route.finished = 0;
  }
  __syncthreads();
  if (*last != 0) route(job.route, plan.work);
}

/// What this block has to do for a product: in shared memory, found before the phase begins.
struct alignas(16) OwnShare {
  int segment = 0;         // its place in shared memory
  int first = 0, end = 0;  // groups of tiles
  int passes = 0;
  int rows = 0, rows_per_pass = 0;
  int unused[2] = {};
};
/// By one thread.
__device__ __forceinline__ void find_share(const SharedPlan& plan, int product) {
  const Job& job = job_at(plan, product);
  const Segment& segment = segment_of(job);
  OwnShare own;
  own.segment = static_cast<int>(reinterpret_cast<const std::byte*>(&segment) - shared_memory());
  if (static_cast<int>(blockIdx.x) < job.blocks) {
    const Share share = share_of(segment, shared_at<const KnownList>(plan.list)->matrices);
    own.first = share.first;
    own.end = share.end;
  }
  own.passes = job.passes;
  own.rows = job.rows;
  own.rows_per_pass = job.rows_per_pass;
  store_words(shared_at<OwnShare>(plan.share), own);
}
__device__ __forceinline__ OwnShare own_share(const SharedPlan& plan) {
  return load_words(shared_at<const OwnShare>(plan.share));
}

/// The list of matrices, to shared memory.
__device__ __forceinline__ void learn_list(const Job& job, int product, const SharedPlan& plan) {
  const int matrices = load_fresh(&job.list->count);
  for (int i = threadIdx.x; i < matrices; i += kBlockThreads)
    shared_at<int>(plan.active)[i] = load_fresh(&job.list->matrix[i]);
  if (threadIdx.x == 0) {
    *shared_at<KnownList>(plan.list) = {job.list_number, matrices};
    find_share(plan, product);
  }
  __syncthreads();
}

/// What comes next of it. Looked up again after every wait rather than kept: staging needs the registers.
struct Place {
  Run run;
  StagedRows rows;
};
__device__ __forceinline__ Place place_of(const OwnShare& own, const Segment& segment, int pass, int group) {
  Place place;
  place.run = run_from(segment, thread_here() / 32, own.first + group, own.end);
  place.rows.first = pass * own.rows_per_pass;
  place.rows.count = min(own.rows_per_pass, own.rows - place.rows.first);
  place.rows.listed = segment.in.slots > 0 ? place.run.listed : -1;
  return place;
}

/// Rows of a run to shared memory, unless they are there; and the last of the jobs that are kept, which is on
/// its way.
template <int kTiles>
__device__ __forceinline__ void stage_run(const StepArguments& step, const Job& job, int pass, int group) {
  const OwnShare own = own_share(step.plan);
  const Segment& segment = *shared_at<const Segment>(own.segment);
  if (group > 0 && segment.in.slots == 0) return;
  if (pass > 0 || group > 0) __syncthreads();  // the rows before have been used
  const Place place = place_of(own, segment, pass, group);
  if (place.run.count > 0 && (step.skipped & kSkipStage) == 0)
    stage_rows<kTiles>(segment, job.list, place.rows, blockIdx.x == 0,
                       stage_at(step.plan.work, segment.matrix, kTiles), shared_at<float>(step.plan.partial));
  copy_wait<0>();
  __syncthreads();
}

/// A run of tiles, whose rows are staged. Returns how many groups that are.
template <int kTiles>
__device__ __forceinline__ int take_run(const StepArguments& step, const Job& job, int pass, int group,
                                        Stream& stream, int& buffer) {
  const OwnShare own = own_share(step.plan);
  const Segment& segment = *shared_at<const Segment>(own.segment);
  const Place place = place_of(own, segment, pass, group);
  if (place.run.count == 0) return 0;
  float factor = 1;
  if (segment.normed)
    factor = row_factor(shared_at<const float>(step.plan.partial) + kWarps * kMaxRows, segment.in.cols,
                        segment.in.epsilon);
  if (blockIdx.x == 0 && group == 0 && segment.keep_normed != nullptr)
    finish_kept(segment, place.rows, factor);
  multiply_run<kTiles>(step, job, segment, place.run, place.rows, factor, stream, buffer);
  return place.run.count;
}

/// This block's share of a product, for all rows: pass by pass, run by run.
template <int kTiles>
__device__ __forceinline__ void run_share(const StepArguments& step, int product) {
  const Job& job = job_at(step.plan, product);
  int buffer = 0, pass = 0, group = 0;
#pragma unroll 1
  do {
    stage_run<kTiles>(step, job, pass, group);
    Stream stream = load_stream(step.plan);
    // For the first run this has been done before the phase began.
    if (pass > 0 || group > 0) stream.look_ahead(step, min(product + kJobsKept - 1, step.job_count - 1));
    group += take_run<kTiles>(step, job, pass, group, stream, buffer);
    keep_stream(step.plan, stream);
    const OwnShare own = own_share(step.plan);
    if (own.first + group < own.end) continue;
    group = 0;
    if (++pass == own.passes) return;
  } while (true);
}

/// Once product `product` is over, while other blocks finish it: weights and norms of products to come.
__device__ __forceinline__ void prepare_products(const StepArguments& step, int product) {
  const int last = product + kJobsKept - 1;
  if (last < step.job_count) prefetch_norms(job_at(step.plan, last));
  Stream stream = load_stream(step.plan);
  stream.look_ahead(step, min(last, step.job_count - 1));
  keep_stream(step.plan, stream);
  // Of a stack whose list is not there yet it is found later.
  if (product + 1 < step.job_count && thread_here() == kBlockThreads - 1) find_share(step.plan, product + 1);
}

/// Product number `product` of the step; its job and the next one are in shared memory, one more is on its
/// way.
template <int kTiles>
__device__ __forceinline__ void run_product(const StepArguments& step, int product) {
  const Job& job = job_at(step.plan, product);
  if (job.stacked && shared_at<const KnownList>(step.plan.list)->number != job.list_number) {
    __syncthreads();
    learn_list(job, product, step.plan);
    Stream stream = load_stream(step.plan);
    stream.look_ahead(step, min(product + 1, step.job_count - 1));
    keep_stream(step.plan, stream);
  }
  run_share<kTiles>(step, product);
  if (static_cast<int>(blockIdx.x) < job.blocks && job.route.segment >= 0 &&
      &segment_of(job) == &job.segments[job.route.segment])
    route_when_last(job, step.plan);
}

}  // namespace slip::backend::cuda
