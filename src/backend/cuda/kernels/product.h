// Rows times matrices, for 1 to 16 rows: the product phases of a step.
//
// A block of 16 warps takes row tiles of one matrix one after another, `16 / parts` at a time; the warps of a
// tile share its columns (packed_matrix.h). Every warp streams its own pieces through a ring in shared memory
// by bulk copies. The stream of a warp runs through all products of a step: when a product has no more for
// it, it goes on with the next one's weights, so that they are under way while blocks wait for one another.
// Then the warps' sums are added in the order of the parts and the epilogue writes the results. Weight bytes:
// each once per pass over the rows; activations: every block reads all rows once from the second-level cache.
#pragma once

#include "backend/cuda/kernels/activation.h"
#include "backend/cuda/kernels/experts.h"
#include "backend/cuda/kernels/piece.h"

namespace slip::backend::cuda {

inline constexpr int kSumFloats = 64;  // of a warp, subtile and column tile: [row of four][16 rows]

/// Sums of tiles are kept twice where there is room: one barrier per tile then.
__host__ __device__ constexpr int sum_buffers(int tiles) {
  return tiles == 1 ? 2 : 1;
}

/// What a block has of a product: groups of tiles of one segment.
struct Share {
  const Segment* segment = nullptr;
  int first = 0, end = 0;
};
__device__ inline Share share_of(const Job& job, int matrices) {
  Share share;
  const int block = static_cast<int>(blockIdx.x);
  for (int i = 0; i < job.segment_count; ++i) {
    const Segment& segment = job.segments[i];
    const int own = block - segment.first_block;
    if (own < 0 || own >= segment.blocks) continue;
    const PackedMatrix& matrix = segment.matrix;
    const int slots = kWarps / matrix.parts;
    const int64_t groups =
        static_cast<int64_t>((matrix.tiles + slots - 1) / slots) * (matrix.count > 1 ? matrices : 1);
    share.segment = &segment;
    share.first = static_cast<int>(groups * own / segment.blocks);
    share.end = static_cast<int>(groups * (own + 1) / segment.blocks);
  }
  return share;
}

/// The weights of one warp, from tile to tile and product to product, in the order it multiplies them.
class Stream {
 public:
  __device__ Stream(const SharedPlan& plan, int products, bool dry)
      : arrivals_(plan.arrivals + static_cast<int>(threadIdx.x) / 32 * plan.slots * 8),
        ring_(plan.ring + static_cast<int>(threadIdx.x) / 32 * plan.slots * plan.slot_bytes),
        slots_(plan.slots),
        slot_bytes_(plan.slot_bytes),
        jobs_(plan.jobs),
        active_(plan.active),
        products_(products),
        dry_(dry) {}

  /// Jobs up to this one are in shared memory.
  __device__ void allow(int product) { allowed_ = product; }
  /// The list of this number is in shared memory, with so many matrices.
  __device__ void know_list(int number, int matrices) {
    list_number_ = number;
    matrices_ = matrices;
  }
  __device__ int list_number() const { return list_number_; }
  __device__ int matrices() const { return matrices_; }

  /// Starts copies while there is room and something to copy.
  __device__ void fill() {
    if (dry_) return;
    while (under_way_ < slots_ && find()) issue();
  }
  /// The place of the next stage, once it is there.
  __device__ int next() {
    if (!dry_) wait_arrival(arrival(read_), parity_);
    return slot(read_);
  }
  /// The stage has been used.
  __device__ void release() {
    if (++read_ == slots_) {
      read_ = 0;
      parity_ ^= 1;
    }
    --under_way_;
    fill();
  }

 private:
  __device__ Arrival* arrival(int i) const { return shared_at<Arrival>(arrivals_) + i; }
  __device__ int slot(int i) const { return ring_ + i * slot_bytes_; }

  /// Moves on to the next tile that has something for this warp; false when there is none yet.
  __device__ bool find() {
    while (at_ == end_at_) {
      if (group_ + 1 < share_.end) {
        ++group_;
      } else if (passes_left_ > 1 && share_.end > share_.first) {
        --passes_left_;
        group_ = share_.first;
      } else if (!enter()) {
        return false;
      }
      find_tile();
    }
    return true;
  }
  /// The next product, if it may be entered and this block has a share of it; others are passed over.
  __device__ bool enter() {
    while (true) {
      if (product_ + 1 >= products_ || product_ + 1 > allowed_) return false;
      const Job& next = shared_at<const Job>(jobs_)[(product_ + 1) & 1];
      Share share = share_of(next, 0);
      const bool stacked = share.segment != nullptr && share.segment->matrix.count > 1;
      if (stacked) {
        if (next.list_number != list_number_) return false;
        share = share_of(next, matrices_);
      }
      ++product_;
      if (share.segment == nullptr || share.first >= share.end) continue;
      share_ = share;
      group_ = share.first;
      passes_left_ = (next.rows + next.rows_per_pass - 1) / next.rows_per_pass;
      return true;
    }
  }
  __device__ void find_tile() {
    const PackedMatrix& matrix = share_.segment->matrix;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int slots = kWarps / matrix.parts, part = warp % matrix.parts;
    const int per_matrix = (matrix.tiles + slots - 1) / slots;
    const int tile = group_ % per_matrix * slots + warp / matrix.parts;
    at_ = end_at_ = nullptr;
    if (tile >= matrix.tiles) return;
    const std::byte* data = matrix.data + static_cast<int64_t>(tile) * matrix.tile_bytes;
    if (matrix.count > 1) data += shared_at<const int>(active_)[group_ / per_matrix] * matrix.matrix_bytes();
    const auto place = [&](int piece) { return data + min(piece * matrix.piece_bytes, matrix.tile_bytes); };
    at_ = place(part * matrix.pieces / matrix.parts);
    end_at_ = place((part + 1) * matrix.pieces / matrix.parts);
    stage_bytes_ = matrix.piece_bytes * (2 / matrix.subtiles);
  }
  __device__ void issue() {
    const int64_t left = end_at_ - at_;
    const int bytes = left < stage_bytes_ ? static_cast<int>(left) : stage_bytes_;
    copy_bulk(shared_at<std::byte>(slot(write_)), at_, bytes, arrival(write_));
    at_ += bytes;
    write_ = write_ + 1 == slots_ ? 0 : write_ + 1;
    ++under_way_;
  }

  int arrivals_, ring_, slots_, slot_bytes_, jobs_, active_, products_;
  bool dry_;  // a benchmark wants no copies
  int product_ = -1, allowed_ = -1, list_number_ = -1, matrices_ = 0;
  Share share_;
  int group_ = 0, passes_left_ = 0, stage_bytes_ = 0;
  const std::byte *at_ = nullptr, *end_at_ = nullptr;
  int read_ = 0, write_ = 0, under_way_ = 0;
  uint32_t parity_ = 0;
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
      if (to == kNowhere) return;
      if (segment.softcap > 0) y = segment.softcap * tanhf(y / segment.softcap);
      if (to == kToPick) {
        segment.stay[n * segment.stay_stride + row] = y;
        return;
      }
      break;
  }
  segment.out[to * segment.out_stride + row] = y;
}

/// The sums of a tile's warps, in the order of the parts, by those warps.
template <int kSubtiles, int kTiles>
__device__ __noinline__ void finish_tile(const Segment& segment, const MatrixList* list, const float* sums,
                                         int listed, int tile, float factor, StagedRows rows) {
  const PackedMatrix& packed = segment.matrix;
  const int threads = packed.parts * 32, own = static_cast<int>(threadIdx.x) % threads;
  const int tile_rows = packed.pair ? 16 : 16 * kSubtiles, total = tile_rows * rows.count;
  for (int start = 0; start < total; start += threads) {
    const int i = start + own, n = i < total ? i / tile_rows : 0, r = i % tile_rows,
              row = tile * tile_rows + r;
    const float scale = segment.normed ? shuffle(factor, n) : 1.0f;
    if (i >= total || row >= packed.rows) continue;
    const auto total_of = [&](int subtile) {
      const float* from = sums + (subtile * kTiles + n / 4) * kSumFloats + n % 4 * 16 + r % 16;
      float sum = from[0];
#pragma unroll 4
      for (int part = 1; part < packed.parts; ++part) sum += from[part * kSubtiles * kTiles * kSumFloats];
      return sum * scale;
    };
    const float y = total_of(packed.pair ? 0 : r / 16);
    const float up = kSubtiles == 2 && packed.pair ? total_of(1) : 0;
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

/// What the products of a step share.
struct ProductContext {
  const SharedPlan& plan;
  Stream& stream;
  int products;
  int skipped;
};

template <Format kFormat, int kGroups, int kSubtiles, int kTiles>
__device__ __noinline__ void run_segment(const ProductContext& context, const Job& job, const Share& share,
                                         int product) {
  using Work = Piece<kFormat, kGroups, kSubtiles, kTiles>;
  constexpr int kStagePieces = 2 / kSubtiles;
  const Segment& segment = *share.segment;
  const PackedMatrix& matrix = segment.matrix;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int parts = matrix.parts, slots = kWarps / parts, slot = warp / parts, part = warp % parts;
  const int begin_piece = part * matrix.pieces / parts, end_piece = (part + 1) * matrix.pieces / parts;
  const int per_matrix = (matrix.tiles + slots - 1) / slots;
  const Stage stage = stage_at(context.plan.work, matrix, kTiles);
  auto* partial = shared_at<float>(context.plan.partial);
  const bool keeps = blockIdx.x == 0;
  Stream stream = context.stream;  // in registers while it is busy
  int buffer = 0;
  for (int first = 0; first < job.rows; first += job.rows_per_pass) {
    StagedRows rows{first, min(job.rows_per_pass, job.rows - first), -1};
    if (first > 0) __syncthreads();
    if (segment.in.slots == 0 && (context.skipped & kSkipStage) == 0)
      stage_rows<kTiles>(segment, job.list, rows, keeps, stage, partial);
    copy_wait<0>();
    __syncthreads();
    stream.allow(product + 1);
    stream.fill();
    if (product + 1 < context.products)
      prefetch_norms(shared_at<const Job>(context.plan.jobs)[(product + 1) & 1]);
    const float factor =
        segment.normed ? row_factor(partial + kWarps * kMaxRows, segment.in.cols, segment.in.epsilon) : 1.0f;
    if (keeps && segment.keep_normed != nullptr) finish_kept(segment, rows, factor);
    for (int group = share.first; group < share.end; ++group) {
      const int listed = group / per_matrix, tile = group % per_matrix * slots + slot;
      if (segment.in.slots > 0 && rows.listed != listed) {
        __syncthreads();
        rows.listed = listed;
        stage_rows<kTiles>(segment, job.list, rows, false, stage, partial);
        __syncthreads();
      }
      if (tile >= matrix.tiles) continue;
      float mine[kSubtiles][kTiles][4] = {};
      for (int piece = begin_piece; piece < end_piece; piece += kStagePieces) {
        const int place = stream.next();
        if ((context.skipped & kSkipMultiply) == 0) {
          Work::multiply(place, piece, stage, mine);
          if (kStagePieces == 2 && piece + 1 < end_piece)
            Work::multiply(place + Work::kBytes, piece + 1, stage, mine);
        }
        stream.release();
      }
      float* sums = shared_at<float>(context.plan.sums) +
                    (buffer * kWarps + slot * parts) * (kSubtiles * kTiles * kSumFloats);
      if (sum_buffers(kTiles) == 2) buffer ^= 1;
      float* to = sums + part * (kSubtiles * kTiles * kSumFloats) + lane % 4 * 32 + lane / 4;
#pragma unroll
      for (int s = 0; s < kSubtiles; ++s) {
#pragma unroll
        for (int column = 0; column < kTiles; ++column) {
          float(&sum)[4] = mine[s][column];
#pragma unroll
          for (int i = 0; i < 4; ++i) sum[i] += shuffle_xor(sum[i], 2);  // low parts to high ones
          if (lane % 4 < 2) {
            float* place = to + (s * kTiles + column) * kSumFloats;
            place[0] = sum[0];
            place[16] = sum[1];
            place[8] = sum[2];
            place[24] = sum[3];
          }
        }
      }
      parts == 1 ? __syncwarp() : sync_some(1 + slot, parts * 32);
      finish_tile<kSubtiles, kTiles>(segment, job.list, sums, listed, tile, factor, rows);
      // With one buffer, or a warp alone with its own, nobody may overtake.
      if (parts == 1) {
        __syncwarp();
      } else if (sum_buffers(kTiles) == 1) {
        sync_some(1 + slot, parts * 32);
      }
    }
  }
  context.stream = stream;
}

template <Format kFormat, int kGroups, int kTiles>
__device__ __forceinline__ void run_format(const ProductContext& context, const Job& job, const Share& share,
                                           int product) {
  if (share.segment->matrix.subtiles == 2) {
    run_segment<kFormat, kGroups, 2, kTiles>(context, job, share, product);
  } else {
    run_segment<kFormat, kGroups, 1, kTiles>(context, job, share, product);
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

/// Product number `product` of the step; its job is in shared memory, the next one's on its way.
template <int kTiles>
__device__ void run_product(const ProductContext& context, int product) {
  const Job& job = shared_at<const Job>(context.plan.jobs)[product & 1];
  Stream& stream = context.stream;
  bool stacked = false;
  for (int i = 0; i < job.segment_count; ++i) stacked |= job.segments[i].matrix.count > 1;
  if (stacked && stream.list_number() != job.list_number) {
    const int matrices = load_fresh(&job.list->count);
    for (int i = threadIdx.x; i < matrices; i += kBlockThreads)
      shared_at<int>(context.plan.active)[i] = load_fresh(&job.list->matrix[i]);
    __syncthreads();
    stream.know_list(job.list_number, matrices);
    stream.fill();
  }
  const Share share = share_of(job, stream.matrices());
  if (share.segment == nullptr) {
    copy_wait<0>();
    __syncthreads();
    stream.allow(product + 1);
    stream.fill();
    return;
  }
  const PackedMatrix& matrix = share.segment->matrix;
  if (matrix.format == Format::kBf16) {
    run_format<Format::kBf16, 0, kTiles>(context, job, share, product);
  } else if (matrix.format == Format::kAffine4 && matrix.groups == 1) {
    run_format<Format::kAffine4, 1, kTiles>(context, job, share, product);
  } else if (matrix.format == Format::kAffine4) {
    run_format<Format::kAffine4, 2, kTiles>(context, job, share, product);
  } else if (matrix.groups == 1) {
    run_format<Format::kAffine8, 1, kTiles>(context, job, share, product);
  } else {
    run_format<Format::kAffine8, 2, kTiles>(context, job, share, product);
  }
  if (job.route.segment >= 0 && share.segment == &job.segments[job.route.segment])
    route_when_last(job, context.plan);
}

}  // namespace slip::backend::cuda
