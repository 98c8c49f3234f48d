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

/// One result of a tile: row `row` of the matrix, row `n` of the step.
__device__ inline void put(const Segment& segment, const MatrixList* list, int listed, int row, int n,
                           float y, float up) {
  int64_t to = n;
  if (segment.matrix.count > 1) {
    const int slot = load_fresh(&list->slot[listed][n]);
    if (slot < 0) return;
    to = static_cast<int64_t>(n) * segment.out_slots + slot;
  }
  if (segment.epilogue == Epilogue::kLogits) {
    to = load_fresh(segment.out_rows + n);
    if (to == kNowhere) return;
    if (segment.softcap > 0) y = segment.softcap * tanhf(y / segment.softcap);
    if (to == kToPick) {
      segment.stay[n * segment.stay_stride + row] = y;
      return;
    }
  } else if (segment.epilogue != Epilogue::kStore) {
    const bool gated = segment.epilogue == Epilogue::kGated;
    if (!gated) up = load_fresh(segment.other + n * segment.other_stride + row);
    y = activate(y, gated ? segment.activation : model::Activation::kGeluTanh) * up;
  }
  segment.out[to * segment.out_stride + row] = y;
}

/// The sums of a tile's warps, in the order of the parts, by those warps.
template <int kSubtiles, int kTiles>
__device__ __forceinline__ void finish_tile(const Segment& segment, const MatrixList* list, const float* sums,
                                            int thread, int listed, int tile, float factor,
                                            const StagedRows& rows) {
  const PackedMatrix& packed = segment.matrix;
  const int threads = 32 << segment.parts_log, own = thread & (threads - 1);
  const bool pair = kSubtiles == 2 && packed.pair;
  const int rows_log = kSubtiles == 1 || pair ? 4 : 5, total = rows.count << rows_log;
#pragma unroll 1
  for (int start = 0; start < total; start += threads) {
    const int i = start + own, n = i < total ? i >> rows_log : 0, r = i & ((1 << rows_log) - 1),
              row = (tile << rows_log) + r;
    const float scale = segment.normed ? shuffle(factor, n) : 1.0f;
    if (i >= total || row >= packed.rows) continue;
    const auto total_of = [&](int subtile) {
      const float* from = sums + (subtile * kTiles + n / 4) * kSumFloats + n % 4 * 16 + r % 16;
      float sum = from[0];
#pragma unroll 4
      for (int part = 1; part < packed.parts; ++part) sum += from[part * kSubtiles * kTiles * kSumFloats];
      return sum * scale;
    };
    const float y = total_of(pair ? 0 : r / 16);
    const float up = pair ? total_of(1) : 0;
    put(segment, list, listed, row, rows.first + n, y, up);
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

/// A run of tiles times the staged rows, and what becomes of the sums. `buffer`: of the sums, the one that is
/// free.
template <Format kFormat, int kGroups, int kSubtiles, int kTiles>
__device__ __forceinline__ void multiply_run(const StepArguments& step, const Segment& segment,
                                             const MatrixList* list, const Run& run, const StagedRows& rows,
                                             float factor, Stream& stream, int& buffer) {
  using Work = Piece<kFormat, kGroups, kSubtiles, kTiles>;
  constexpr int kStagePieces = 2 / kSubtiles;
  constexpr int kTileSums = kSubtiles * kTiles * kSumFloats;  // of a warp
  const int thread = thread_here(), warp = thread / 32, lane = thread % 32;
  const int parts = 1 << segment.parts_log, slots = kWarps >> segment.parts_log;
  const int slot = warp >> segment.parts_log;
  const int tiles = segment.matrix.tiles;
  const Pieces pieces = own_pieces(segment, warp);
  const Stage stage = stage_at(step.plan.work, segment.matrix, kTiles);
  const bool multiplies = (step.skipped & kSkipMultiply) == 0;
  int tile = run.tile;
  for (int i = 0; i < run.count && tile < tiles; ++i, tile += slots) {
    float mine[kSubtiles][kTiles][4] = {};
#pragma unroll 1
    for (int piece = pieces.begin; piece < pieces.end; piece += kStagePieces) {
      const int place = stream.next(step);
      if (multiplies) {
        Work::multiply(lane, place, piece, stage, mine);
        if (kStagePieces == 2 && piece + 1 < pieces.end)
          Work::multiply(lane, place + Work::kBytes, piece + 1, stage, mine);
      }
      stream.release(step);
    }
    float* sums = shared_at<float>(step.plan.sums) + buffer * kWarps * kTileSums;
    float* to = sums + warp * kTileSums + lane % 4 * 32 + lane / 4;
    if (sum_buffers(kTiles) == 2) buffer ^= 1;
#pragma unroll
    for (int s = 0; s < kSubtiles; ++s) {
#pragma unroll
      for (int column = 0; column < kTiles; ++column) {
        float(&sum)[4] = mine[s][column];
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[j] += shuffle_xor(sum[j], 2);  // low parts to high ones
        if (lane % 4 < 2) {
          float* at = to + (s * kTiles + column) * kSumFloats;
          at[0] = sum[0];
          at[16] = sum[1];
          at[8] = sum[2];
          at[24] = sum[3];
        }
      }
    }
    parts == 1 ? __syncwarp() : sync_some(1 + slot, parts * 32);
    finish_tile<kSubtiles, kTiles>(segment, list, sums + slot * parts * kTileSums, thread, run.listed, tile,
                                   factor, rows);
    // With one buffer, or a warp alone with its own, nobody may overtake.
    if (parts == 1) {
      __syncwarp();
    } else if (sum_buffers(kTiles) == 1) {
      sync_some(1 + slot, parts * 32);
    }
  }
}

/// The same for whatever format the matrix has.
template <int kTiles>
__device__ __forceinline__ void multiply_any(const StepArguments& step, const Segment& segment,
                                             const MatrixList* list, const Run& run, const StagedRows& rows,
                                             float factor, Stream& stream, int& buffer) {
  const PackedMatrix& matrix = segment.matrix;
  const auto multiply = [&]<Format kFormat, int kGroups>() {
    if (matrix.subtiles == 2) {
      multiply_run<kFormat, kGroups, 2, kTiles>(step, segment, list, run, rows, factor, stream, buffer);
    } else {
      multiply_run<kFormat, kGroups, 1, kTiles>(step, segment, list, run, rows, factor, stream, buffer);
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

/// The list of matrices, to shared memory.
__device__ __forceinline__ void learn_list(const Job& job, const SharedPlan& plan) {
  const int matrices = load_fresh(&job.list->count);
  for (int i = threadIdx.x; i < matrices; i += kBlockThreads)
    shared_at<int>(plan.active)[i] = load_fresh(&job.list->matrix[i]);
  if (threadIdx.x == 0) *shared_at<KnownList>(plan.list) = {job.list_number, matrices};
  __syncthreads();
}

/// What this block has to do next for a product. Looked up again after every wait rather than kept: staging
/// needs the registers.
struct Place {
  Share share;
  Run run;
  StagedRows rows;
};
__device__ __forceinline__ Place place_of(const Job& job, const Segment& segment, int matrices, int pass,
                                          int group) {
  Place place;
  if (static_cast<int>(blockIdx.x) < job.blocks) place.share = share_of(segment, matrices);
  place.run = run_from(segment, thread_here() / 32, place.share.first + group, place.share.end);
  place.rows.first = pass * job.rows_per_pass;
  place.rows.count = min(job.rows_per_pass, job.rows - place.rows.first);
  place.rows.listed = segment.in.slots > 0 ? place.run.listed : -1;
  return place;
}

/// Rows of a run to shared memory, unless they are there; and the next job, which is on its way.
template <int kTiles>
__device__ __forceinline__ void stage_run(const StepArguments& step, const Job& job, int pass, int group) {
  const Segment& segment = segment_of(job);
  if (group > 0 && segment.in.slots == 0) return;
  if (pass > 0 || group > 0) __syncthreads();  // the rows before have been used
  const Place place =
      place_of(job, segment, shared_at<const KnownList>(step.plan.list)->matrices, pass, group);
  if (place.run.count > 0 && (step.skipped & kSkipStage) == 0)
    stage_rows<kTiles>(segment, job.list, place.rows, blockIdx.x == 0,
                       stage_at(step.plan.work, segment.matrix, kTiles), shared_at<float>(step.plan.partial));
  copy_wait<0>();
  __syncthreads();
}

/// This block's share of a product, for all rows: pass by pass, run by run. With an empty share it only waits
/// for the next job, whose weights and norms may then come.
template <int kTiles>
__device__ __forceinline__ void run_share(const StepArguments& step, int product) {
  const Job& job = shared_at<const Job>(step.plan.jobs)[product & 1];
  int buffer = 0;
  for (int pass = 0, group = 0; pass < job.passes;) {
    stage_run<kTiles>(step, job, pass, group);
    const int last = min(product + 1, step.job_count - 1);
    Stream stream = load_stream(step.plan);
    stream.look_ahead(step, last);
    if (pass == 0 && group == 0 && last > product)
      prefetch_norms(shared_at<const Job>(step.plan.jobs)[last & 1]);
    const Segment& segment = segment_of(job);
    const Place place =
        place_of(job, segment, shared_at<const KnownList>(step.plan.list)->matrices, pass, group);
    if (place.run.count > 0) {
      float factor = 1;
      if (segment.normed)
        factor = row_factor(shared_at<const float>(step.plan.partial) + kWarps * kMaxRows, segment.in.cols,
                            segment.in.epsilon);
      if (blockIdx.x == 0 && group == 0 && segment.keep_normed != nullptr)
        finish_kept(segment, place.rows, factor);
      multiply_any<kTiles>(step, segment, job.list, place.run, place.rows, factor, stream, buffer);
    }
    keep_stream(step.plan, stream);
    group += place.run.count;
    if (place.share.first + group >= place.share.end) {
      group = 0;
      ++pass;
    }
  }
}

/// Product number `product` of the step; its job is in shared memory, the next one's on its way.
template <int kTiles>
__device__ __forceinline__ void run_product(const StepArguments& step, int product) {
  const Job& job = shared_at<const Job>(step.plan.jobs)[product & 1];
  if (job.stacked && shared_at<const KnownList>(step.plan.list)->number != job.list_number) {
    __syncthreads();
    learn_list(job, step.plan);
    Stream stream = load_stream(step.plan);
    stream.look_ahead(step, product);
    keep_stream(step.plan, stream);
  }
  run_share<kTiles>(step, product);
  if (static_cast<int>(blockIdx.x) < job.blocks && job.route.segment >= 0 &&
      &segment_of(job) == &job.segments[job.route.segment])
    route_when_last(job, step.plan);
}

}  // namespace slip::backend::cuda
