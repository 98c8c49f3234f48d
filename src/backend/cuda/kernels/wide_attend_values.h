// Values of wide attention: each warp of a team weights its dimensions of a tile's values for all queries of
// the team. Sums of the block of keys that is being walked, and of all before it, are in registers.
#pragma once

#include "backend/cuda/kernels/wide_attend_plan.h"

namespace slip::backend::cuda {

template <int kDim, bool kOne>
class WideValues {
 public:
  __device__ __forceinline__ WideValues(const WideAttend& attend, int team, int member)
      : plan_(wide_attend_plan<kDim, kOne>(attend.job)),
        lane_(static_cast<int>(threadIdx.x) % 32),
        team_(team),
        first_dim_(member * W::kOutTiles * 8) {}

  /// `ends`: with this tile ends a block of keys.
  __device__ __forceinline__ void add(int buffer, bool ends) {
    if (!begins_) rescale();
    uint32_t high[W::kQueryTiles][2][4], low[W::kQueryTiles][2][4];
    const uint16_t* weights = shared_at<const uint16_t>(plan_.weights) +
                              team_ * 2 * W::kTeamQueries * T::kWeightStride +
                              rows_place(lane_, T::kWeightStride);
#pragma unroll
    for (int q = 0; q < W::kQueryTiles; ++q) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const uint16_t* from = weights + q * kQueries * T::kWeightStride + step * 16;
        load_matrices(high[q][step], from);
        load_matrices(low[q][step], from + W::kTeamQueries * T::kWeightStride);
      }
    }
    const uint16_t* values =
        shared_at<const uint16_t>(plan_.buffers + buffer * W::kBufferBytes + (kOne ? 0 : T::kBytes)) +
        lane_ * T::kStride + first_dim_;
    // Tiles of eight dimensions whose sums take turns, because each must wait for the one before.
    constexpr int kMost = 8 / W::kQueryTiles, kTogether = kMost < W::kOutTiles ? kMost : W::kOutTiles;
#pragma unroll
    for (int tile = 0; tile < W::kOutTiles; tile += kTogether) {
      uint32_t v[kTogether][4];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) load_transposed(v[i], values + (tile + i) * 8);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const auto multiply = [&](const uint32_t(&a)[W::kQueryTiles][2][4]) {
#pragma unroll
          for (int q = 0; q < W::kQueryTiles; ++q) {
#pragma unroll
            for (int i = 0; i < kTogether; ++i)
              mma(out_[q][tile + i], a[q][step], v[i][2 * step], v[i][2 * step + 1]);
          }
        };
        multiply(high);
        multiply(low);
      }
    }
    begins_ = ends;
    if (ends) merge();
  }

  /// Once all sums of weights are there.
  __device__ __forceinline__ void store(const AttendJob& job, const WideUnit& unit) const {
    for_rows([&](int q, int half, const RowFactors& row, int query) {
      if (query >= unit.count) return;
      float* to = job.out + unit.row_of(query) * job.out_stride + unit.head_of(query) * kDim + first_dim_ +
                  2 * (lane_ % 4);
#pragma unroll
      for (int tile = 0; tile < W::kOutTiles; ++tile)
        *reinterpret_cast<float2*>(to + tile * 8) =
            make_float2(merged_[q][tile][2 * half] / row.sum, merged_[q][tile][2 * half + 1] / row.sum);
    });
  }

 private:
  using W = WideTileOf<kDim, kOne>;
  using T = Tile<kDim>;

  /// The queries that this lane has sums of.
  template <typename With>
  __device__ __forceinline__ void for_rows(const With& with) const {
#pragma unroll
    for (int q = 0; q < W::kQueryTiles; ++q) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int query = team_ * W::kTeamQueries + q * kQueries + lane_ / 4 + 8 * half;
        with(q, half, shared_at<const RowFactors>(plan_.factors)[query], query);
      }
    }
  }
  __device__ __forceinline__ void rescale() {
    for_rows([&](int q, int half, const RowFactors& row, int) {
      const float factor = row.rescale;
#pragma unroll
      for (int tile = 0; tile < W::kOutTiles; ++tile) {
        out_[q][tile][2 * half] *= factor;
        out_[q][tile][2 * half + 1] *= factor;
      }
    });
  }
  /// See merge_blocks().
  __device__ __forceinline__ void merge() {
    for_rows([&](int q, int half, const RowFactors& row, int) {
      const MergeWeights weights = row.merge;
#pragma unroll
      for (int tile = 0; tile < W::kOutTiles; ++tile) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          merged_[q][tile][i] = merged(merged_[q][tile][i], out_[q][tile][i], weights.stays, weights.joins);
          out_[q][tile][i] = 0;
        }
      }
    });
  }

  const WideAttendPlan plan_;
  const int lane_, team_, first_dim_;
  bool begins_ = true;  // a block of keys
  float out_[W::kQueryTiles][W::kOutTiles][4] = {}, merged_[W::kQueryTiles][W::kOutTiles][4] = {};
};

}  // namespace slip::backend::cuda
