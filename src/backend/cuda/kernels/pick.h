// The best tokens of every row that asks for them (base/scores.h), as the last phase of a step: only they
// travel to the host, not the logits.
//
// A row's values are cut into chunks, a block at a time for each. A block holds the ranks of its chunk in
// registers, finds the rank of its k-th best by bisection (at most 32 counts over the block, and as many over
// ids where equal values must be told apart), and leaves its k best. The block that is last with a row does
// the same with what all chunks left, sorts and writes to the host. A selection of exact ranks by a total
// order has one result, so neither the cut nor the order of arrival can be seen. One token alone (k = 1) is a
// maximum, in one pass. Bytes: 4 per value, from the second-level cache where the head has left them.
#pragma once

#include "backend/cuda/kernels/rank.h"
#include "backend/cuda/kernels/stage.h"
#include "backend/cuda/kernels/step.h"
#include "backend/cuda/kernels/waiting.h"

namespace slip::backend::cuda {

/// One of the parts that a row's values are looked at in.
struct Chunk {
  int first, count;
  __device__ Chunk(const PickJob& job, int index) {
    const int size = (job.size + job.chunks - 1) / job.chunks;
    first = index * size;
    count = max(0, min(size, job.size - first));
  }
};

/// Scores by token.
struct TokenScores : Chunk {
  static constexpr int kMostPerThread = kPickPerThread;
  const float* scores;
  __device__ TokenScores(const PickJob& job, int row, int chunk)
      : Chunk(job, chunk), scores(job.scores + row * job.stride + first) {}
  __device__ uint32_t rank(int i, bool& damaged) const {
    const float value = load_fresh(scores + i);
    damaged |= !(value < INFINITY);
    return rank_of(value);
  }
  __device__ int id(int i) const { return first + i; }
};

/// Scores of the tokens of a row's clusters.
struct ClusterScores : Chunk {
  static constexpr int kMostPerThread = kClusterPickPerThread;
  const PickJob& job;
  int row;
  __device__ ClusterScores(const PickJob& pick, int of, int chunk) : Chunk(pick, chunk), job(pick), row(of) {}
  __device__ int slot(int i) const { return row * job.kept + (first + i) / job.cluster_size; }
  __device__ uint32_t rank(int i, bool& damaged) const {
    const float value = load_fresh(job.scores + slot(i) * job.stride + (first + i) % job.cluster_size);
    damaged |= !(value < INFINITY);
    return rank_of(value);
  }
  __device__ int id(int i) const {
    const int64_t cluster = load_fresh(&job.list->matrix[slot(i)]);
    return __ldg(job.ordering + cluster * job.cluster_size + (first + i) % job.cluster_size);
  }
};

/// What the chunks of a row have left: `wanted` of each.
struct FoundBy {
  static constexpr int kMostPerThread = kMostPickChunks * kMostCandidates / kBlockThreads;
  const Found* found;  // [chunk][wanted]
  int count;
  __device__ uint32_t rank(int i, bool&) const { return load_fresh(&found[i].rank); }
  __device__ int id(int i) const { return load_fresh(&found[i].id); }
};

/// Sums over a block, one barrier each: the places of the sums alternate.
class BlockSums {
 public:
  __device__ explicit BlockSums(int* partial) : partial_(partial) {}
  __device__ int operator()(int mine) {
    mine = warp_sum(mine);
    int* sums = partial_ + turn_ * kWarps;
    turn_ ^= 1;
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = mine;
    __syncthreads();
    int sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += sums[w];
    return sum;
  }

 private:
  int* partial_;  // [2][kWarps]
  int turn_ = 0;
};

/// Shared memory of the phase.
struct PickSpace {
  Found best[kMostCandidates];
  int partial[2 * kWarps];
  int count, last;
};

/// The best `wanted` of a source, in no order, to space.best; space.count says how many there are. True if
/// a value was NaN or +infinity. Thread t has the values t, t + 512, ...
template <typename Source>
__device__ __noinline__ bool select_best(const Source& source, int wanted, PickSpace& space) {
  constexpr int kMost = Source::kMostPerThread;
  const int thread = static_cast<int>(threadIdx.x);
  uint32_t ranks[kMost];
  bool damaged = false;
#pragma unroll
  for (int j = 0; j < kMost; ++j) {
    const int i = j * kBlockThreads + thread;
    ranks[j] = i < source.count ? source.rank(i, damaged) : 0;
  }
  if (thread == 0) space.count = 0;
  BlockSums block_sum(space.partial);
  damaged = block_sum(damaged ? 1 : 0) > 0;
  // Places past the last value have rank 0, which is below every limit.
  const auto count_from = [&](uint32_t limit) {
    int mine = 0;
#pragma unroll
    for (int j = 0; j < kMost; ++j) {
      if (j * kBlockThreads >= source.count) break;
      mine += ranks[j] >= limit ? 1 : 0;
    }
    return block_sum(mine);
  };
  // The largest limit that at least `wanted` reach; 1, which all possible ones reach, if there are not more.
  uint32_t limit = 0;
  int reached = count_from(1);
  if (reached <= wanted) {
    limit = 1;
  } else {
    for (uint32_t bit = 0x80000000u; bit != 0 && reached != wanted; bit >>= 1) {
      const int count = count_from(limit | bit);
      if (count < wanted) continue;
      limit |= bit;
      reached = count;
    }
  }
  // Of those that are just as good as the last one, the lower ids: those below `id_end`.
  uint32_t id_end = 0xffffffffu;
  if (reached > wanted) {
    const int ties = wanted - count_from(limit + 1);
    id_end = 0;
    int below = -1;
    for (uint32_t bit = 0x40000000u; bit != 0 && below != ties; bit >>= 1) {
      int mine = 0;
#pragma unroll
      for (int j = 0; j < kMost; ++j) {
        if (j * kBlockThreads >= source.count) break;
        if (ranks[j] == limit &&
            static_cast<uint32_t>(source.id(j * kBlockThreads + thread)) < (id_end | bit))
          ++mine;
      }
      const int count = block_sum(mine);
      if (count > ties) continue;
      id_end |= bit;
      below = count;
    }
  }
#pragma unroll
  for (int j = 0; j < kMost; ++j) {
    if (j * kBlockThreads >= source.count) break;
    if (ranks[j] < limit || ranks[j] == 0) continue;
    const int id = source.id(j * kBlockThreads + thread);
    if (ranks[j] > limit || static_cast<uint32_t>(id) < id_end)
      space.best[take_place(&space.count)] = {ranks[j], id};
  }
  __syncthreads();
  return damaged;
}

/// The same for one token.
template <typename Source>
__device__ __noinline__ bool select_one(const Source& source, PickSpace& space) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  bool damaged = false;
  uint32_t best = 0;
  int where = 0;
#pragma unroll 8
  for (int i = thread; i < source.count; i += kBlockThreads) {
    const uint32_t rank = source.rank(i, damaged);
    if (rank > best || (rank == best && rank > 0 && source.id(i) < source.id(where))) {
      best = rank;
      where = i;
    }
  }
  int id = best > 0 ? source.id(where) : 0;
  best_of_ranks(best, id);
  const bool any = warp_sum(damaged ? 1 : 0) > 0;
  if (thread % 32 == 0) {
    space.best[1 + warp] = {best, id};
    space.partial[warp] = any ? 1 : 0;
  }
  __syncthreads();
  const int lane = thread % 32;
  best = lane < kWarps ? space.best[1 + lane].rank : 0;
  id = lane < kWarps ? space.best[1 + lane].id : 0;
  best_of_ranks(best, id);
  int sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += space.partial[w];
  if (thread == 0) {
    space.best[0] = {best, id};
    space.count = best > 0 ? 1 : 0;
  }
  __syncthreads();
  return sum > 0;
}

template <typename Source>
__device__ inline bool select_some(const Source& source, int wanted, PickSpace& space) {
  return wanted == 1 ? select_one(source, space) : select_best(source, wanted, space);
}

/// To the host, the best first: a token's place is the number of better ones.
__device__ inline void write_best(BestTokens& out, int wanted, bool damaged, const PickSpace& space) {
  const int thread = static_cast<int>(threadIdx.x), count = space.count;
  for (int i = thread; i < count; i += kBlockThreads) {
    const Found own = space.best[i];
    int place = 0;
    for (int j = 0; j < count; ++j) {
      const Found other = space.best[j];
      place += other.rank > own.rank || (other.rank == own.rank && other.id < own.id) ? 1 : 0;
    }
    out.tokens[place] = {value_of_rank(own.rank), own.id};
  }
  if (thread == 0) {
    out.wanted = wanted;
    out.count = count;
    out.fine = damaged ? 0 : 1;
  }
}

__device__ inline void pick_chunk(const PickJob& job, int row, int chunk, int wanted, BestTokens& out,
                                  PickSpace& space) {
  const int thread = static_cast<int>(threadIdx.x);
  bool damaged = job.list == nullptr ? select_some(TokenScores(job, row, chunk), wanted, space)
                                     : select_some(ClusterScores(job, row, chunk), wanted, space);
  if (job.chunks > 1) {
    Found* found = job.found + static_cast<int64_t>(row) * job.chunks * kMostCandidates;
    for (int i = thread; i < wanted; i += kBlockThreads)
      found[chunk * wanted + i] = i < space.count ? space.best[i] : Found{0, 0};
    if (thread == 0 && damaged) job.damaged[row] = 1;
    __syncthreads();
    if (thread == 0) {
      space.last = count_finished(job.finished + row) + 1 == static_cast<uint32_t>(job.chunks) ? 1 : 0;
      if (space.last != 0) job.finished[row] = 0;
    }
    __syncthreads();
    if (space.last == 0) return;
    select_some(FoundBy{found, job.chunks * wanted}, wanted, space);
    damaged = load_fresh(job.damaged + row) != 0;
    __syncthreads();
    if (thread == 0) job.damaged[row] = 0;
  }
  write_best(out, wanted, damaged, space);
}

__device__ inline void pick(const PickJob& job, const Step& step, int work) {
  PickSpace& space = *shared_at<PickSpace>(work);
  for (int unit = static_cast<int>(blockIdx.x); unit < job.rows * job.chunks;
       unit += static_cast<int>(gridDim.x)) {
    const int row = unit / job.chunks, wanted = step.best[row];
    if (wanted == 0) continue;
    __syncthreads();  // nobody reads what the unit before left
    pick_chunk(job, row, unit % job.chunks, wanted, job.out[step.out_rows[row]], space);
  }
}

}  // namespace slip::backend::cuda
