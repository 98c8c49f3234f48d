// The queries of a block of wide attention as row operands of the tensor cores, in two parts of bf16: normed
// and turned they come, and where K = V they are weighted with the norm of the keys, their turned dimensions
// apart.
#pragma once

#include "backend/cuda/kernels/wide_attend_plan.h"

namespace slip::backend::cuda {

template <int kDim, bool kOne>
class WideQueries {
 public:
  __device__ __forceinline__ WideQueries(const WideAttend& attend, const WideUnit& unit)
      : job_(attend.job), unit_(unit), plan_(wide_attend_plan<kDim, kOne>(job_)) {}

  /// By all threads.
  __device__ void put() const {
    const int turned_steps = kOne ? turned_dims(job_.own.turns.pairs) / 16 : 0;
    const int steps = T::kSteps + turned_steps, tiles = W::kTeams * W::kQueryTiles;
    for (int i = static_cast<int>(threadIdx.x); i < tiles * steps * 32; i += W::kThreads) {
      const int lane = i % 32, step = i / 32 % steps, tile = i / 32 / steps;
      const bool plain = step < T::kSteps;
      if (plain && W::is_left_out(step)) continue;
      uint32_t high[4], low[4];
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const int q = tile * kQueries + lane / 4 + 8 * (part % 2), at = 2 * (lane % 4) + 8 * (part / 2);
        Split split{0, 0};
        if (q < unit_.count) {
          const float* query =
              job_.own.query + unit_.row_of(q) * job_.own.query_stride + unit_.head_of(q) * kDim;
          split = plain ? read(query, step * 16 + at) : read_turned(query, (step - T::kSteps) * 16 + at);
        }
        high[part] = split.high;
        low[part] = split.low;
      }
      const int to = plain ? plan_.queries + (tile * W::kStoredSteps + W::stored_step(step)) * 1024
                           : plan_.turned_queries + (tile * turned_steps + step - T::kSteps) * 1024;
      shared_at<uint4>(to)[lane] = make_uint4(high[0], high[1], high[2], high[3]);
      shared_at<uint4>(to)[32 + lane] = make_uint4(low[0], low[1], low[2], low[3]);
    }
  }

 private:
  using W = WideTileOf<kDim, kOne>;
  using T = Tile<kDim>;

  /// Two dimensions, as multiplied with what the cache holds.
  __device__ __forceinline__ Split read(const float* query, int dim) const {
    float2 both = *reinterpret_cast<const float2*>(query + dim);
    if (kOne) {
      both.x = turns(dim) ? 0 : both.x * __ldg(job_.k_norm + dim);
      both.y = turns(dim + 1) ? 0 : both.y * __ldg(job_.k_norm + dim + 1);
    }
    return split_bf16(both.x, both.y);
  }
  __device__ __forceinline__ bool turns(int dim) const {
    return dim % (kDim / 2) < job_.own.turns.pairs;
  }

  /// Two of the turned dimensions: those of the first half, then those of the second, then zeros.
  __device__ __forceinline__ Split read_turned(const float* query, int index) const {
    const int pairs = job_.own.turns.pairs;
    const auto at = [&](int i) {
      return i < pairs ? query[i] : i < 2 * pairs ? query[kDim / 2 + i - pairs] : 0.0f;
    };
    return split_bf16(at(index), at(index + 1));
  }

  const AttendJob& job_;
  const WideUnit& unit_;
  const WideAttendPlan plan_;
};

}  // namespace slip::backend::cuda
