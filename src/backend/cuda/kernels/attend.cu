// Attention of up to 16 rows over a cache: one block of threads per 16 queries (rows of a sequence times
// query heads of one kv head) and block of keys; keys and values pass through shared memory in tiles. The 8
// warps share the head's dimensions: each multiplies its part of the queries, kept in registers, with all
// keys of a tile, the partial scores are added in the order of the warps; then each warp weights its part of
// the values. Queries and weights enter the tensor cores as pairs of bf16. Where the cache holds one vector n
// for K = V, scores are (q * k_norm) n for the dimensions that do not turn, and the turned ones are rebuilt
// per tile. Bytes: every visible key and value once per 16 queries, all but the first time from the
// second-level cache.
#include <algorithm>

#include "backend/cuda/kernels/cache_access.h"
#include "backend/cuda/kernels/launch.h"

namespace slip::backend::cuda {
namespace {

constexpr int kWarpCount = 8, kThreads = kWarpCount * 32;
constexpr int kQueries = 16;
constexpr float kNothing = -INFINITY;

template <int kDim>
struct Tile {
  static constexpr int kKeys = kDim == 512 ? 32 : 64;
  static constexpr int kStride = kDim + 8;  // bf16 between keys: rows then start in other banks
  static constexpr int kSteps = kDim / 16;
  static constexpr int kSplit = kSteps < kWarpCount ? kSteps : kWarpCount;  // warps that share the dimensions
  static constexpr int kStepsPerWarp = kSteps / kSplit;
  static constexpr int kOutTiles = (kDim / 8 + kWarpCount - 1) / kWarpCount;  // of 8 dimensions, per warp
  static constexpr int kScoreStride = kKeys + 4;
  static constexpr int kWeightStride = kKeys + 8;
};

struct SharedPlan {
  int64_t keys = 0, values = 0, turned = 0, turned_queries = 0, scores = 0, weights = 0, rescale = 0, end = 0;
};

__host__ __device__ constexpr int turned_dims(int pairs) {
  return (2 * pairs + 15) / 16 * 16;
}

template <int kDim>
__host__ __device__ SharedPlan shared_plan(bool k_is_v, int pairs) {
  using T = Tile<kDim>;
  const int64_t turned = k_is_v ? turned_dims(pairs) + 8 : 0;
  SharedPlan plan;
  plan.values = k_is_v ? 0 : T::kKeys * T::kStride * 2;
  plan.turned = plan.values + T::kKeys * T::kStride * 2;
  plan.turned_queries = plan.turned + 2 * T::kKeys * turned * 2;
  plan.scores = plan.turned_queries + 2 * kQueries * turned * 2;
  plan.weights = plan.scores + int64_t{T::kSplit} * kQueries * T::kScoreStride * 4;
  plan.rescale = plan.weights + 2 * kQueries * T::kWeightStride * 2;
  plan.end = plan.rescale + kQueries * 4;
  return plan;
}

/// One block's work.
struct Unit {
  int group, kv_head, block, first_query, queries;
};

__device__ bool find_unit(const AttendJob& job, int index, Unit& unit) {
  const int share = job.heads / job.cache.kv_heads, kind = job.sliding ? 0 : 1;
  const int groups = load_fresh(&job.step->groups);
  for (int g = 0; g < groups; ++g) {
    const RowGroup& rows = job.step->group[g];
    const int queries = load_fresh(&rows.count) * share, tiles = (queries + kQueries - 1) / kQueries;
    const int first = KeyBlocks::of(job.sliding, load_fresh(&rows.first_key[kind]));
    const int last = KeyBlocks::of(job.sliding, load_fresh(&rows.end_key[kind]) - 1);
    const int count = (last - first + 1) * job.cache.kv_heads * tiles;
    if (index < count) {
      unit.group = g;
      unit.first_query = index % tiles * kQueries;
      unit.queries = min(kQueries, queries - unit.first_query);
      unit.kv_head = index / tiles % job.cache.kv_heads;
      unit.block = first + index / tiles / job.cache.kv_heads;
      return true;
    }
    index -= count;
  }
  return false;
}

/// Tile keys [start, start + kKeys); rows outside [first, end) are zero.
template <int kDim>
__device__ void fetch_tile(const AttendJob& job, const Unit& unit, int part, int start, int first, int end,
                           std::byte* to) {
  using T = Tile<kDim>;
  constexpr int kPieces = kDim / 8;  // of 16 bytes
  const std::byte* from = cache_slot(job.cache, job.step, unit.group, part, unit.kv_head, start);
  for (int i = threadIdx.x; i < T::kKeys * kPieces; i += kThreads) {
    const int key = i / kPieces, piece = i % kPieces;
    std::byte* place = to + (key * T::kStride + piece * 8) * 2;
    if (start + key >= first && start + key < end) {
      copy_async(place, from + (static_cast<int64_t>(key) * kDim + piece * 8) * 2);
    } else {
      *reinterpret_cast<uint4*>(place) = make_uint4(0, 0, 0, 0);
    }
  }
}

__device__ __forceinline__ bool turns(const Turns& table, int half, int dim) {
  return dim < table.pairs || (dim >= half && dim < half + table.pairs);
}

/// Pairs of a query at two dimensions, as multiplied with what the cache holds.
template <int kDim>
__device__ Split read_query(const AttendJob& job, const float* query, int dim) {
  if (query == nullptr) return {0, 0};
  float x = load_fresh(query + dim), y = load_fresh(query + dim + 1);
  if (job.cache.k_is_v) {
    x = turns(job.turns, kDim / 2, dim) ? 0 : x * __ldg(job.k_norm + dim);
    y = turns(job.turns, kDim / 2, dim + 1) ? 0 : y * __ldg(job.k_norm + dim + 1);
  }
  return split_bf16(x, y);
}

/// Turned dimension i of a head: its place in the head.
__device__ __forceinline__ int turned_place(const Turns& table, int half, int i) {
  return i < table.pairs ? i : half + i - table.pairs;
}

/// The turned dimensions of the tile's keys, from the n they are made of.
template <int kDim>
__device__ void turn_keys(const AttendJob& job, int start, const uint16_t* n, uint16_t* high, uint16_t* low) {
  using T = Tile<kDim>;
  const int pairs = job.turns.pairs, stride = turned_dims(pairs) + 8;
  for (int i = threadIdx.x; i < T::kKeys * pairs; i += kThreads) {
    const int key = i / pairs, pair = i % pairs;
    const uint16_t* row = n + key * T::kStride;
    const float a = bf16_low(row[pair]) * __ldg(job.k_norm + pair);
    const float b = bf16_low(row[pair + kDim / 2]) * __ldg(job.k_norm + pair + kDim / 2);
    const Turn turn = turn_at(job.turns, start + key, pair);
    const Split split = split_bf16(a * turn.cosine - b * turn.sine, b * turn.cosine + a * turn.sine);
    high[key * stride + pair] = static_cast<uint16_t>(split.high);
    high[key * stride + pairs + pair] = static_cast<uint16_t>(split.high >> 16);
    low[key * stride + pair] = static_cast<uint16_t>(split.low);
    low[key * stride + pairs + pair] = static_cast<uint16_t>(split.low >> 16);
  }
}

__device__ __forceinline__ uint32_t two_at(const uint16_t* from) {
  return *reinterpret_cast<const uint32_t*>(from);
}
/// The 16-row operand at a step of 16 columns.
__device__ __forceinline__ void row_operand(const uint16_t* rows, int stride, int col, uint32_t (&a)[4]) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  const uint16_t* at = rows + g * stride + col + 2 * t;
  a[0] = two_at(at);
  a[1] = two_at(at + 8 * stride);
  a[2] = two_at(at + 8);
  a[3] = two_at(at + 8 * stride + 8);
}

template <int kDim>
__global__ void __launch_bounds__(kThreads, 1) attend_kernel(const __grid_constant__ AttendJob job) {
  using T = Tile<kDim>;
  grid_launch_next();
  grid_wait();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int share = job.heads / job.cache.kv_heads, kind = job.sliding ? 0 : 1;
  const int pairs = job.turns.pairs, turned = turned_dims(pairs), turned_stride = turned + 8;
  const SharedPlan plan = shared_plan<kDim>(job.cache.k_is_v, pairs);
  std::byte* shared = shared_memory();
  const auto* keys = reinterpret_cast<const uint16_t*>(shared + plan.keys);
  const auto* values = reinterpret_cast<const uint16_t*>(shared + plan.values);
  auto* turned_high = reinterpret_cast<uint16_t*>(shared + plan.turned);
  auto* turned_low = turned_high + T::kKeys * turned_stride;
  auto* query_high = reinterpret_cast<uint16_t*>(shared + plan.turned_queries);
  auto* query_low = query_high + kQueries * turned_stride;
  auto* scores = reinterpret_cast<float*>(shared + plan.scores);
  auto* weight_high = reinterpret_cast<uint16_t*>(shared + plan.weights);
  auto* weight_low = weight_high + kQueries * T::kWeightStride;
  auto* rescale = reinterpret_cast<float*>(shared + plan.rescale);

  Unit unit;
  for (int index = blockIdx.x; find_unit(job, index, unit); index += gridDim.x) {
    const RowGroup& rows = job.step->group[unit.group];
    const int first_row = load_fresh(&rows.first);
    const auto row_of = [&](int q) { return first_row + (unit.first_query + q) / share; };
    const auto head_of = [&](int q) { return unit.kv_head * share + (unit.first_query + q) % share; };
    const auto query_of = [&](int q) -> const float* {
      return q < unit.queries ? job.query + row_of(q) * job.query_stride + head_of(q) * kDim : nullptr;
    };

    // Queries: this warp's dimensions to registers, turned ones to shared memory.
    uint32_t q_high[T::kStepsPerWarp][4], q_low[T::kStepsPerWarp][4];
#pragma unroll
    for (int s = 0; s < T::kStepsPerWarp; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int dim = (warp * T::kStepsPerWarp + s) * 16 + 2 * t + 8 * (i / 2);
        Split split{0, 0};
        if (warp < T::kSplit) split = read_query<kDim>(job, query_of(g + 8 * (i % 2)), dim);
        q_high[s][i] = split.high;
        q_low[s][i] = split.low;
      }
    }
    if (job.cache.k_is_v) {
      for (int i = threadIdx.x; i < kQueries * turned; i += kThreads) {
        const int q = i / turned, dim = i % turned;
        const float* query = query_of(q);
        float x = 0;
        if (query != nullptr && dim < 2 * pairs)
          x = load_fresh(query + turned_place(job.turns, kDim / 2, dim));
        const Split split = split_bf16(x, 0);
        query_high[q * turned_stride + dim] = static_cast<uint16_t>(split.high);
        query_low[q * turned_stride + dim] = static_cast<uint16_t>(split.low);
      }
      // Padded dimensions of keys are never written by turn_keys().
      for (int i = threadIdx.x; i < T::kKeys * (turned - 2 * pairs); i += kThreads) {
        const int key = i / (turned - 2 * pairs), dim = 2 * pairs + i % (turned - 2 * pairs);
        turned_high[key * turned_stride + dim] = turned_low[key * turned_stride + dim] = 0;
      }
    }

    // This warp's two queries, and what they see.
    int sees_first[2], sees_end[2];
    float most[2] = {kNothing, kNothing}, total[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int q = 2 * warp + i;
      const StepRow& row = job.step->row[q < unit.queries ? row_of(q) : first_row];
      sees_first[i] = load_fresh(&row.first[kind]);
      sees_end[i] = q < unit.queries ? load_fresh(&row.end[kind]) : 0;
    }
    float out[T::kOutTiles][4] = {};

    const int first = max(load_fresh(&rows.first_key[kind]), KeyBlocks::start(job.sliding, unit.block));
    const int end = min(load_fresh(&rows.end_key[kind]), KeyBlocks::start(job.sliding, unit.block + 1));
    for (int start = first / T::kKeys * T::kKeys; start < end; start += T::kKeys) {
      __syncthreads();  // the tile before has been used
      fetch_tile<kDim>(job, unit, 0, start, first, end, shared + plan.keys);
      if (!job.cache.k_is_v) fetch_tile<kDim>(job, unit, 1, start, first, end, shared + plan.values);
      copy_commit();
      copy_wait<0>();
      __syncthreads();
      if (job.cache.k_is_v) {
        turn_keys<kDim>(job, start, keys, turned_high, turned_low);
        __syncthreads();
      }

      if (warp < T::kSplit) {
#pragma unroll
        for (int tile = 0; tile < T::kKeys / 8; ++tile) {
          float sums[4] = {};
          const uint16_t* key = keys + (tile * 8 + g) * T::kStride + 2 * t;
#pragma unroll
          for (int s = 0; s < T::kStepsPerWarp; ++s) {
            const uint16_t* at = key + (warp * T::kStepsPerWarp + s) * 16;
            const uint32_t b0 = two_at(at), b1 = two_at(at + 8);
            mma(sums, q_high[s], b0, b1);
            mma(sums, q_low[s], b0, b1);
          }
          if (job.cache.k_is_v) {
            for (int s = warp; s < turned / 16; s += T::kSplit) {
              uint32_t a_high[4], a_low[4];
              row_operand(query_high, turned_stride, s * 16, a_high);
              row_operand(query_low, turned_stride, s * 16, a_low);
              const int at = (tile * 8 + g) * turned_stride + s * 16 + 2 * t;
              const uint32_t b0 = two_at(turned_high + at), b1 = two_at(turned_high + at + 8);
              mma(sums, a_high, b0, b1);
              mma(sums, a_low, b0, b1);
              mma(sums, a_high, two_at(turned_low + at), two_at(turned_low + at + 8));
            }
          }
          float* to = scores + (warp * kQueries + g) * T::kScoreStride + tile * 8 + 2 * t;
          to[0] = sums[0];
          to[1] = sums[1];
          to[8 * T::kScoreStride] = sums[2];
          to[8 * T::kScoreStride + 1] = sums[3];
        }
      }
      __syncthreads();

#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int q = 2 * warp + i;
        constexpr int kMine = T::kKeys / 32;
        float score[kMine];
        float highest = most[i];
#pragma unroll
        for (int j = 0; j < kMine; ++j) {
          const int key = lane + 32 * j;
          float sum = 0;
          for (int w = 0; w < T::kSplit; ++w) sum += scores[(w * kQueries + q) * T::kScoreStride + key];
          const bool seen = start + key >= sees_first[i] && start + key < sees_end[i];
          score[j] = seen ? sum : kNothing;
          highest = fmaxf(highest, score[j]);
        }
        highest = warp_max(highest);
        const float factor = highest == kNothing ? 1.0f : expf(most[i] - highest);
        float sum = 0;
#pragma unroll
        for (int j = 0; j < kMine; ++j) {
          const float weight = score[j] == kNothing ? 0.0f : expf(score[j] - highest);
          const Split split = split_bf16(weight, 0);
          weight_high[q * T::kWeightStride + lane + 32 * j] = static_cast<uint16_t>(split.high);
          weight_low[q * T::kWeightStride + lane + 32 * j] = static_cast<uint16_t>(split.low);
          sum += weight;
        }
        total[i] = fmaf(total[i], factor, warp_sum(sum));
        most[i] = highest;
        if (lane == 0) rescale[q] = factor;
      }
      __syncthreads();

      const float factor0 = rescale[g], factor1 = rescale[g + 8];
#pragma unroll
      for (int i = 0; i < T::kOutTiles; ++i) {
        const int dims = (warp + kWarpCount * i) * 8;
        if (dims >= kDim) continue;
        out[i][0] *= factor0;
        out[i][1] *= factor0;
        out[i][2] *= factor1;
        out[i][3] *= factor1;
#pragma unroll
        for (int step = 0; step < T::kKeys / 16; step += 2) {
          uint32_t v[4], a[4];
          load_transposed(v, values + (step * 16 + lane) * T::kStride + dims);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            row_operand(weight_high, T::kWeightStride, (step + half) * 16, a);
            mma(out[i], a, v[2 * half], v[2 * half + 1]);
            row_operand(weight_low, T::kWeightStride, (step + half) * 16, a);
            mma(out[i], a, v[2 * half], v[2 * half + 1]);
          }
        }
      }
    }

    const int block = unit.block - KeyBlocks::of(job.sliding, load_fresh(&rows.first_key[kind]));
    const auto place = [&](int q) {
      return (static_cast<int64_t>(block) * kMaxRows + row_of(q)) * job.heads + head_of(q);
    };
#pragma unroll
    for (int i = 0; i < T::kOutTiles; ++i) {
      const int dims = (warp + kWarpCount * i) * 8 + 2 * t;
      if (dims >= kDim) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int q = g + 8 * half;
        if (q >= unit.queries) continue;
        float* to = job.partials + place(q) * kDim + dims;
        to[0] = out[i][2 * half];
        to[1] = out[i][2 * half + 1];
      }
    }
    if (lane < 2 && 2 * warp + lane < unit.queries) {
      float* to = job.weights + place(2 * warp + lane) * 2;
      to[0] = lane == 0 ? most[0] : most[1];
      to[1] = lane == 0 ? total[0] : total[1];
    }
    __syncthreads();
  }
}

constexpr int kMergeThreads = 128;
constexpr int kMostBlocks = 512;

/// One row and head: its blocks in the order of position.
__global__ void __launch_bounds__(kMergeThreads) merge_kernel(const __grid_constant__ AttendJob job) {
  grid_launch_next();
  grid_wait();
  auto* most = reinterpret_cast<float*>(shared_memory());
  float* total = most + kMostBlocks;
  const int row = blockIdx.x / job.heads, head = blockIdx.x % job.heads, kind = job.sliding ? 0 : 1;
  const StepRow& step = job.step->row[row];
  const int offset =
      KeyBlocks::of(job.sliding, load_fresh(&job.step->group[load_fresh(&step.group)].first_key[kind]));
  const int first = KeyBlocks::of(job.sliding, load_fresh(&step.first[kind])) - offset;
  const int count = KeyBlocks::of(job.sliding, load_fresh(&step.end[kind]) - 1) - offset - first + 1;
  const auto place = [&](int block) {
    return (static_cast<int64_t>(first + block) * kMaxRows + row) * job.heads + head;
  };
  for (int block = threadIdx.x; block < count; block += kMergeThreads) {
    most[block] = load_fresh(job.weights + place(block) * 2);
    total[block] = load_fresh(job.weights + place(block) * 2 + 1);
  }
  __syncthreads();
  float highest = kNothing;
  for (int block = 0; block < count; ++block) highest = fmaxf(highest, most[block]);
  __syncthreads();
  for (int block = threadIdx.x; block < count; block += kMergeThreads)
    most[block] = expf(most[block] - highest);
  __syncthreads();
  float sum = 0;
  for (int block = 0; block < count; ++block) sum = fmaf(most[block], total[block], sum);
  const int dims = job.cache.head_dim;
  for (int dim = threadIdx.x; dim < dims; dim += kMergeThreads) {
    float value = 0;
    for (int block = 0; block < count; ++block)
      value = fmaf(most[block], load_fresh(job.partials + place(block) * dims + dim), value);
    job.out[row * job.out_stride + head * dims + dim] = value / sum;
  }
}

template <int kDim>
void attend_blocks(Gpu& gpu, const AttendJob& job) {
  const auto shared = static_cast<size_t>(shared_plan<kDim>(job.cache.k_is_v, job.turns.pairs).end);
  launch(gpu, {.blocks = 2 * gpu.info().processors, .threads = kThreads, .shared_bytes = shared},
         attend_kernel<kDim>, job);
}

}  // namespace

void prepare_attention(Gpu& gpu) {
  allow_shared(attend_kernel<16>, gpu.info().shared_bytes);
  allow_shared(attend_kernel<32>, gpu.info().shared_bytes);
  allow_shared(attend_kernel<64>, gpu.info().shared_bytes);
  allow_shared(attend_kernel<128>, gpu.info().shared_bytes);
  allow_shared(attend_kernel<256>, gpu.info().shared_bytes);
  allow_shared(attend_kernel<512>, gpu.info().shared_bytes);
}

void attend(Gpu& gpu, const AttendJob& job) {
  switch (job.cache.head_dim) {
    case 16: attend_blocks<16>(gpu, job); break;
    case 32: attend_blocks<32>(gpu, job); break;
    case 64: attend_blocks<64>(gpu, job); break;
    case 128: attend_blocks<128>(gpu, job); break;
    case 256: attend_blocks<256>(gpu, job); break;
    case 512: attend_blocks<512>(gpu, job); break;
    default:
      fail_gpu("the CUDA kernels have no heads of size " + std::to_string(job.cache.head_dim) +
               "; use --device cpu");
  }
  launch(gpu, {.blocks = job.rows * job.heads, .threads = kMergeThreads, .shared_bytes = 2 * kMostBlocks * 4},
         merge_kernel, job);
}

}  // namespace slip::backend::cuda
