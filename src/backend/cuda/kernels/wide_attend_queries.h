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
      const bool plain = step < T::kSteps;  // of all lanes of a warp
      if (plain && W::is_left_out(step)) continue;
      const int column = step % T::kSteps * 16 + 2 * (lane % 4);
      float2 x[4];
      read_queries(tile * kQueries + lane / 4, [&](int part, const float* query) {
        const int at = column + 8 * (part / 2);
        x[part] = plain ? read(query, at) : read_turned(query, at);
      });
      uint32_t high[4], low[4];
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        if (tile * kQueries + lane / 4 + 8 * (part % 2) >= unit_.count) x[part] = make_float2(0, 0);
        const Split split = split_bf16(x[part].x, x[part].y);
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

  /// Calls `with` for the four parts of an operand, of two queries; where one is not there, of another.
  template <typename With>
  __device__ __forceinline__ void read_queries(int first, const With& with) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int q = min(first + 8 * half, unit_.count - 1);
      const float* query = job_.own.query + unit_.row_of(q) * job_.own.query_stride + unit_.head_of(q) * kDim;
      with(half, query);
      with(half + 2, query);
    }
  }

  /// Two dimensions, as multiplied with what the cache holds.
  __device__ __forceinline__ float2 read(const float* query, int dim) const {
    float2 both = *reinterpret_cast<const float2*>(query + dim);
    if (kOne) {
      const float2 norm = __ldg(reinterpret_cast<const float2*>(job_.k_norm + dim));
      both.x = turns(dim) ? 0 : both.x * norm.x;
      both.y = turns(dim + 1) ? 0 : both.y * norm.y;
    }
    return both;
  }
  __device__ __forceinline__ bool turns(int dim) const {
    return dim % (kDim / 2) < job_.own.turns.pairs;
  }

  /// Two of the turned dimensions: those of the first half, then those of the second, then zeros.
  __device__ __forceinline__ float2 read_turned(const float* query, int index) const {
    const int pairs = job_.own.turns.pairs;
    const auto at = [&](int i) {
      const float value = query[i < pairs ? i : min(kDim / 2 + i - pairs, kDim - 1)];
      return i < 2 * pairs ? value : 0.0f;
    };
    return make_float2(at(index), at(index + 1));
  }

  const AttendJob& job_;
  const WideUnit& unit_;
  const WideAttendPlan plan_;
};

}  // namespace slip::backend::cuda
