// The best tokens of every row that asks for them (base/scores.h), as the last phase of a step: only they
// travel to the host, not the logits.
//
// A row's values are cut into chunks, a block at a time for each. A block looks through its chunk twice: for
// the best value of every few threads, of which the k-th best is a bound that k values of the chunk reach
// and seldom many more; and for those that reach it, of which it leaves the k best. (Where too many reach it,
// as when most are equal, bisection finds another bound.) The block that is last with a row does the same
// with what all chunks left and writes to the host. A selection of exact ranks by a total order has one
// result, so neither the cut nor the order of arrival can be seen. One token alone (k = 1) is a maximum, in
// one pass. Bytes: 8 per value, from the second-level cache where the head has left them.
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

/// What the chunks of a row have left: `wanted` of each, the best of all chunks first, so that neighbouring
/// threads have those of different chunks.
struct FoundBy {
  const Found* found;  // [wanted][chunk]
  int count;
  __device__ uint32_t rank(int i, bool&) const { return load_fresh(&found[i].rank); }
  __device__ int id(int i) const { return load_fresh(&found[i].id); }
};

/// Shared memory of the phase.
struct PickSpace {
  static constexpr int kNear = 2 * kBlockThreads;
  uint32_t group_best[2 * kMostCandidates];  // ranks
  Found near[kNear];                         // those that reach a bound
  Found best[kMostCandidates];               // of them, the best first
  uint32_t bound;
  int damaged[kWarps];
  int count, last;
};
static_assert(sizeof(PickSpace::group_best) / sizeof(uint32_t) == kBlockThreads / 2);

/// Whether a thread has seen a value that must not be: told before a barrier, asked after it.
__device__ inline void tell_damaged(bool own, PickSpace& space) {
  const int any = warp_sum(own ? 1 : 0);
  if (thread_here() % 32 == 0) space.damaged[thread_here() / 32] = any;
}
__device__ inline bool told_damaged(const PickSpace& space) {
  int sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += space.damaged[w];
  return sum > 0;
}

/// The least that is taken: values above `rank`, and of those equal to it the tokens before `id_end`.
struct Bound {
  static constexpr uint32_t kAll = 0xffffffffu;
  uint32_t rank, id_end = kAll;
  template <typename Source>
  __device__ bool takes(const Source& source, uint32_t value, int i) const {
    if (value != rank || id_end == kAll) return value >= rank;
    return static_cast<uint32_t>(source.id(i)) < id_end;
  }
};

/// Calls `with` with the place and the rank of this thread's values: t, t + 512, ... Some are on their way at
/// a time, whatever is done with them.
template <typename Source, typename With>
__device__ __forceinline__ bool for_own_ranks(const Source& source, const With& with) {
  constexpr int kAtOnce = 8;
  bool damaged = false;
#pragma unroll 1
  for (int first = thread_here(); first < source.count; first += kAtOnce * kBlockThreads) {
    uint32_t ranks[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kBlockThreads;
      ranks[j] = i < source.count ? source.rank(i, damaged) : 0;
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) with(first + j * kBlockThreads, ranks[j]);
  }
  return damaged;
}

/// How many of a source's values a bound takes. By all threads.
template <typename Source>
__device__ __noinline__ int count_taken(const Source& source, Bound bound, PickSpace& space) {
  __syncthreads();  // the count before this one has been read
  if (thread_here() == 0) space.count = 0;
  __syncthreads();
  int mine = 0;
  for_own_ranks(source, [&](int i, uint32_t rank) { mine += bound.takes(source, rank, i) ? 1 : 0; });
  mine = warp_sum(mine);
  if (thread_here() % 32 == 0) take_places(&space.count, mine);
  __syncthreads();
  return space.count;
}

/// A bound that takes from `wanted` to kNear values, where more than kNear reach `least`.
template <typename Source>
__device__ __noinline__ Bound closer_bound(const Source& source, int wanted, uint32_t least,
                                           PickSpace& space) {
  uint32_t low = least, high = Bound::kAll;  // which enough reach, and too few
  int reached = PickSpace::kNear + 1;
  while (reached > PickSpace::kNear && high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    const int count = count_taken(source, {middle}, space);
    if (count >= wanted) {
      low = middle;
      reached = count;
    } else {
      high = middle;
    }
  }
  if (reached <= PickSpace::kNear) return {low};
  // Too many are just as good as the last one: of them the lower ids.
  uint32_t few = 0, many = 1u << 31;  // ends before which too few lie, and enough
  while (many - few > 1) {
    const uint32_t middle = few + (many - few) / 2;
    if (count_taken(source, {low, middle}, space) >= wanted) {
      many = middle;
    } else {
      few = middle;
    }
  }
  return {low, many};
}

/// Of those near the bound the best `wanted`, in order: a token's place is the number of better ones, counted
/// by four neighbouring threads.
__device__ __forceinline__ void sort_near(int count, int wanted, PickSpace& space) {
  const int part = thread_here() % kRankSharers;
#pragma unroll 1
  for (int first = 0; first < count; first += kBlockThreads / kRankSharers) {
    const int item = first + thread_here() / kRankSharers;
    const Found own = space.near[min(item, count - 1)];
    int place = 0;
#pragma unroll 4
    for (int i = part; i < count; i += kRankSharers) {
      const Found other = space.near[i];
      place += other.rank > own.rank || (other.rank == own.rank && other.id < own.id) ? 1 : 0;
    }
#pragma unroll
    for (int mask = 1; mask < kRankSharers; mask *= 2) place += shuffle_xor(place, mask);
    if (part == 0 && item < count && place < wanted) space.best[place] = own;
  }
}

/// A rank that `wanted` values reach and seldom many more, to space.bound, from the best rank of every
/// thread: the `wanted`-th best of groups of threads, of which there are at least twice as many. By all
/// threads, between barriers.
__device__ __forceinline__ void bound_by_groups(uint32_t best, int wanted, PickSpace& space) {
  const int thread = thread_here(), together = wanted > kMostCandidates / 2 ? 2 : 4,
            groups = kBlockThreads / together;
  for (int mask = 1; mask < together; mask *= 2)
    best = max(best, static_cast<uint32_t>(shuffle_xor(static_cast<int>(best), mask)));
  if (thread % together == 0) space.group_best[thread / together] = best;
  if (thread == 0) space.bound = 1;  // which all reach that are possible
  __syncthreads();
  for (int group = thread / kRankSharers; group < groups; group += kBlockThreads / kRankSharers) {
    const uint32_t rank = space.group_best[group];
    if (better_ones(space.group_best, groups, group) == wanted - 1 && rank != 0) space.bound = rank;
  }
}

/// The best `wanted` of a source to space.best; space.count says how many there are. True if a value was NaN
/// or +infinity.
template <typename Source>
__device__ __noinline__ bool select_best(const Source& source, int wanted, PickSpace& space) {
  const int thread = thread_here();
  uint32_t best = 0;
  const bool damaged = for_own_ranks(source, [&](int, uint32_t rank) { best = max(best, rank); });
  tell_damaged(damaged, space);
  if (thread == 0) space.count = 0;
  bound_by_groups(best, wanted, space);
  __syncthreads();
  Bound bound{space.bound};
  int near = 0;
#pragma unroll 1
  while (true) {
    for_own_ranks(source, [&](int i, uint32_t rank) {
      if (!bound.takes(source, rank, i)) return;
      const int place = take_places(&space.count, 1);
      if (place < PickSpace::kNear) space.near[place] = {rank, i};
    });
    __syncthreads();
    near = space.count;
    if (near <= PickSpace::kNear) break;
    bound = closer_bound(source, wanted, bound.rank, space);
    __syncthreads();
    if (thread == 0) space.count = 0;
    __syncthreads();
  }
  for (int i = thread; i < near; i += kBlockThreads) space.near[i].id = source.id(space.near[i].id);
  __syncthreads();
  sort_near(near, wanted, space);
  if (thread == 0) space.count = min(near, wanted);
  __syncthreads();
  return told_damaged(space);
}

/// The same for one token.
template <typename Source>
__device__ __noinline__ bool select_one(const Source& source, PickSpace& space) {
  const int thread = thread_here(), warp = thread / 32;
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
  tell_damaged(damaged, space);
  if (thread % 32 == 0) space.near[warp] = {best, id};
  __syncthreads();
  const int lane = thread % 32;
  best = lane < kWarps ? space.near[lane].rank : 0;
  id = lane < kWarps ? space.near[lane].id : 0;
  best_of_ranks(best, id);
  if (thread == 0) {
    space.best[0] = {best, id};
    space.count = best > 0 ? 1 : 0;
  }
  __syncthreads();
  return told_damaged(space);
}

template <typename Source>
__device__ inline bool select_some(const Source& source, int wanted, PickSpace& space) {
  return wanted == 1 ? select_one(source, space) : select_best(source, wanted, space);
}

/// To the host.
__device__ inline void write_best(BestTokens& out, int wanted, bool damaged, const PickSpace& space) {
  const int thread = thread_here(), count = space.count;
  for (int i = thread; i < count; i += kBlockThreads)
    out.tokens[i] = {value_of_rank(space.best[i].rank), space.best[i].id};
  if (thread == 0) {
    out.wanted = wanted;
    out.count = count;
    out.all_finite = damaged ? 0 : 1;
  }
}

__device__ inline void pick_chunk(const PickJob& job, int row, int chunk, int wanted, BestTokens& out,
                                  PickSpace& space) {
  const int thread = thread_here();
  bool damaged = job.list == nullptr ? select_some(TokenScores(job, row, chunk), wanted, space)
                                     : select_some(ClusterScores(job, row, chunk), wanted, space);
  if (job.chunks > 1) {
    Found* found = job.found + static_cast<int64_t>(row) * job.chunks * kMostCandidates;
    for (int i = thread; i < wanted; i += kBlockThreads)
      found[i * job.chunks + chunk] = i < space.count ? space.best[i] : Found{0, 0};
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
