// Rows times matrices, for 1 to 16 rows: all narrow phases of the program.
//
// A block of 16 warps takes row tiles of one matrix one after another, `16 / parts` at a time; the warps of a
// tile share its columns (packed_matrix.h). Every warp streams its own chunks through a ring in shared
// memory, several under way, and begins before the rows are there. Then the warps' sums are added in the
// order of the parts and the epilogue writes the results. Weight bytes: each once per pass over the rows;
// activations: every block reads all rows once from the second-level cache.
#pragma once

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/chunk.h"
#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/product_shared.h"

namespace slip::backend::cuda {

/// The chunks of one warp, from tile to tile, in the order it multiplies them.
template <typename Layout, int kStages>
class Stream {
 public:
  __device__ Stream(const PackedMatrix& matrix, std::byte* ring, const int* active, int first, int end)
      : matrix_(matrix), active_(active), first_(first), end_(end), lane_(threadIdx.x % 32) {
    const int warp = threadIdx.x / 32;
    slots_ = kWarps / matrix.parts;
    slot_ = warp / matrix.parts;
    const int part = warp % matrix.parts;
    begin_chunk_ = part * matrix.chunks / matrix.parts;
    end_chunk_ = (part + 1) * matrix.chunks / matrix.parts;
    per_matrix_ = (matrix.tiles + slots_ - 1) / slots_;
    ring_ = ring + static_cast<int64_t>(warp) * kStages * Layout::kBytes;
  }

  __device__ int begin_chunk() const { return begin_chunk_; }
  __device__ int end_chunk() const { return end_chunk_; }
  __device__ int slots() const { return slots_; }
  __device__ int listed(int group) const { return group / per_matrix_; }
  __device__ int first_tile(int group) const { return group % per_matrix_ * slots_; }
  __device__ bool has_tile(int group) const { return first_tile(group) + slot_ < matrix_.tiles; }

  __device__ void start() {
    group_ = first_;
    chunk_ = begin_chunk_;
    head_ = 0;
    find_tile();
#pragma unroll 1
    for (int i = 0; i < kStages - 1; ++i) fetch(i);
  }
  /// The next chunk, once it is there; also sets the one after the last under way going.
  __device__ const std::byte* next() {
    copy_wait<kStages - 2>();
    __syncwarp();  // lanes read scales that others copied, and the place to be refilled is free
    fetch(head_ == 0 ? kStages - 1 : head_ - 1);
    const std::byte* chunk = ring_ + head_ * Layout::kBytes;
    head_ = head_ + 1 == kStages ? 0 : head_ + 1;
    return chunk;
  }

 private:
  __device__ void find_tile() {
    tile_ = nullptr;
    if (group_ >= end_ || !has_tile(group_)) return;
    tile_ = matrix_.data + (active_ == nullptr ? 0 : active_[listed(group_)]) * matrix_.matrix_bytes() +
            (first_tile(group_) + slot_) * matrix_.tile_bytes();
  }
  __device__ void fetch(int place) {
    if (tile_ != nullptr) {
      const std::byte* from = tile_ + static_cast<int64_t>(chunk_) * Layout::kBytes + lane_ * 16;
      std::byte* to = ring_ + place * Layout::kBytes + lane_ * 16;
      constexpr int kWhole = Layout::kBytes / 512, kRest = Layout::kBytes % 512 / 16;
#pragma unroll
      for (int i = 0; i < kWhole; ++i) copy_async(to + i * 512, from + i * 512);
      if (kRest > 0 && lane_ < kRest) copy_async(to + kWhole * 512, from + kWhole * 512);
    }
    copy_commit();
    if (group_ < end_ && ++chunk_ == end_chunk_) {
      chunk_ = begin_chunk_;
      ++group_;
      find_tile();
    }
  }

  const PackedMatrix& matrix_;
  const int* active_;
  int first_, end_, lane_;
  int slots_, slot_, begin_chunk_, end_chunk_, per_matrix_;
  std::byte* ring_;
  const std::byte* tile_ = nullptr;
  int group_ = 0, chunk_ = 0, head_ = 0;
};

/// One result of a tile: row `row` of the matrix, row `n` of the step.
__device__ inline void put(const Segment& segment, const MatrixList* list, int listed, int row, int n,
                           float y, float up) {
  int64_t to = n;
  if (segment.matrix.count > 1) {
    const int slot = load_fresh(&list->slot[listed][n]);
    if (slot < 0) return;
    to = static_cast<int64_t>(n) * segment.out_slots + slot;
  }
  switch (segment.epilogue) {
    case Epilogue::kStore: break;
    case Epilogue::kGated: y = activate(y, segment.activation) * up; break;
    case Epilogue::kGeluTimes:
      y = gelu_tanh(y) * load_fresh(segment.other + n * segment.other_stride + row);
      break;
    case Epilogue::kLogits:
      to = load_fresh(segment.out_rows + n);
      if (to < 0) return;
      if (segment.softcap > 0) y = segment.softcap * tanhf(y / segment.softcap);
      break;
  }
  segment.out[to * segment.out_stride + row] = y;
}

template <int kSubtiles, int kTiles>
__device__ __noinline__ void finish_tiles(const Segment& segment, const MatrixList* list, const float* sums,
                                          int listed, int first_tile, int slots, const StagedRows& rows) {
  const PackedMatrix& packed = segment.matrix;
  const int tile_rows = packed.pair ? 16 : 16 * kSubtiles;
  const int total = slots * tile_rows * rows.count;
  for (int i = threadIdx.x; i < total; i += kProductThreads) {
    const int r = i % tile_rows, n = i / tile_rows % rows.count, slot = i / tile_rows / rows.count;
    const int tile = first_tile + slot, row = tile * tile_rows + r;
    if (tile >= packed.tiles || row >= packed.rows) continue;
    const auto total_of = [&](int subtile) {
      const float* from =
          sums +
          static_cast<int64_t>((slot * packed.parts * kSubtiles + subtile) * kTiles + n / 8) * kSumFloats +
          n % 8 * kColumnStride + r % 16;
      float sum = from[0];
      for (int part = 1; part < packed.parts; ++part) sum += from[part * kSubtiles * kTiles * kSumFloats];
      return sum;
    };
    const float y = total_of(packed.pair ? 0 : r / 16);
    const float up = kSubtiles == 2 && packed.pair ? total_of(1) : 0;
    put(segment, list, listed, row, rows.first + n, y, up);
  }
}

template <Format kFormat, int kGroups, int kSubtiles, int kTiles, bool kDeep>
__device__ void run_segment(const Job& job, const Segment& segment, int block) {
  using Layout = ChunkLayout<kFormat, kGroups, kSubtiles>;
  constexpr int kStages = stages_of(kFormat, kSubtiles, kDeep);
  const PackedMatrix& matrix = segment.matrix;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int per_pass = min(job.rows, job.rows_per_pass);
  const SharedPlan plan = shared_plan(matrix, kStages, per_pass, kTiles);
  std::byte* shared = shared_memory();
  float* sums = reinterpret_cast<float*>(shared + plan.sums);
  const Stage stage{shared + plan.rows, reinterpret_cast<float*>(shared + plan.group_sums),
                    reinterpret_cast<float*>(shared + plan.partial),
                    reinterpret_cast<float*>(shared + plan.factors)};

  // Which matrices are read is only known once the kernel before is done.
  const bool stacked = matrix.count > 1;
  int* active = stacked ? reinterpret_cast<int*>(shared + plan.active) : nullptr;
  int matrices = 1;
  if (stacked) {
    grid_wait();
    matrices = load_fresh(&job.list->count);
    for (int i = threadIdx.x; i < matrices; i += kProductThreads)
      active[i] = load_fresh(&job.list->matrix[i]);
    __syncthreads();
  }
  const int slots = kWarps / matrix.parts;
  const int64_t groups = static_cast<int64_t>(matrices) * ((matrix.tiles + slots - 1) / slots);
  const int first = static_cast<int>(groups * block / segment.blocks);
  const int end = static_cast<int>(groups * (block + 1) / segment.blocks);
  Stream<Layout, kStages> stream(matrix, shared, active, first, end);
  stream.start();
  if (!stacked) grid_wait();

  const bool keeps = blockIdx.x == 0;
  for (int row = 0; row < job.rows; row += per_pass) {
    if (row > 0) stream.start();
    StagedRows rows{row, min(per_pass, job.rows - row), -1};
    if (segment.in.slots == 0 && (keeps || first < end))
      stage_rows<kTiles>(segment, job.list, rows, keeps, stage);
    for (int group = first; group < end; ++group) {
      const int listed = stream.listed(group);
      if (segment.in.slots > 0 && rows.listed != listed) {
        rows.listed = listed;
        stage_rows<kTiles>(segment, job.list, rows, false, stage);
      }
      float mine[kSubtiles][kTiles][4] = {};
      const bool has_tile = stream.has_tile(group);
      for (int chunk = stream.begin_chunk(); chunk < stream.end_chunk(); ++chunk) {
        const std::byte* codes = stream.next();
        if (has_tile)
          multiply_chunk<kFormat, kGroups, kSubtiles, kTiles>(codes, chunk, stage, rows.count, mine);
      }
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          float* to = sums + static_cast<int64_t>((warp * kSubtiles + s) * kTiles + tile) * kSumFloats +
                      2 * (lane % 4) * kColumnStride + lane / 4;
          to[0] = mine[s][tile][0];
          to[kColumnStride] = mine[s][tile][1];
          to[8] = mine[s][tile][2];
          to[kColumnStride + 8] = mine[s][tile][3];
        }
      }
      __syncthreads();
      finish_tiles<kSubtiles, kTiles>(segment, job.list, sums, listed, stream.first_tile(group), slots, rows);
      __syncthreads();
    }
    copy_wait<0>();
  }
}

/// Segments of one format; or of any, which costs registers.
template <int kTiles, bool kDeep, Format kFormat, int kGroups>
__device__ void run_format(const Job& job, const Segment& segment, int block) {
  if (segment.matrix.subtiles == 2) {
    run_segment<kFormat, kGroups, 2, kTiles, kDeep>(job, segment, block);
  } else {
    run_segment<kFormat, kGroups, 1, kTiles, kDeep>(job, segment, block);
  }
}

__device__ inline int segment_of_block(const Job& job) {
  int index = 0;
  while (static_cast<int>(blockIdx.x) >= job.segments[index].first_block + job.segments[index].blocks)
    ++index;
  return index;
}

template <int kTiles, bool kDeep, Format kFormat, int kGroups>
__global__ void __launch_bounds__(kProductThreads, kTiles == 1 && kDeep ? 2 : 1)
    format_kernel(const __grid_constant__ Job job) {
  grid_launch_next();
  const Segment& segment = job.segments[segment_of_block(job)];
  run_format<kTiles, kDeep, kFormat, kGroups>(job, segment,
                                              static_cast<int>(blockIdx.x) - segment.first_block);
}

template <int kTiles, bool kDeep>
__global__ void __launch_bounds__(kProductThreads, kTiles == 1 && kDeep ? 2 : 1)
    mixed_kernel(const __grid_constant__ Job job) {
  grid_launch_next();
  const Segment& segment = job.segments[segment_of_block(job)];
  const int block = static_cast<int>(blockIdx.x) - segment.first_block;
  const PackedMatrix& matrix = segment.matrix;
  if (matrix.format == Format::kBf16) {
    run_format<kTiles, kDeep, Format::kBf16, 0>(job, segment, block);
  } else if (matrix.format == Format::kAffine4 && matrix.groups == 1) {
    run_format<kTiles, kDeep, Format::kAffine4, 1>(job, segment, block);
  } else if (matrix.format == Format::kAffine4) {
    run_format<kTiles, kDeep, Format::kAffine4, 2>(job, segment, block);
  } else if (matrix.groups == 1) {
    run_format<kTiles, kDeep, Format::kAffine8, 1>(job, segment, block);
  } else {
    run_format<kTiles, kDeep, Format::kAffine8, 2>(job, segment, block);
  }
}

/// The kernels for one number of column tiles, by format.
template <int kTiles, bool kDeep>
ProductKernel kernel_for(bool mixed, Format format, int groups) {
  if (mixed) return mixed_kernel<kTiles, kDeep>;
  if (format == Format::kBf16) return format_kernel<kTiles, kDeep, Format::kBf16, 0>;
  if (format == Format::kAffine4) {
    return groups == 1 ? format_kernel<kTiles, kDeep, Format::kAffine4, 1>
                       : format_kernel<kTiles, kDeep, Format::kAffine4, 2>;
  }
  return groups == 1 ? format_kernel<kTiles, kDeep, Format::kAffine8, 1>
                     : format_kernel<kTiles, kDeep, Format::kAffine8, 2>;
}

}  // namespace slip::backend::cuda
