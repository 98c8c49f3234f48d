// What a block of product_kernel.h keeps in shared memory: host and device must agree.
#pragma once

#include "backend/cuda/kernels/device.h"
#include "backend/cuda/kernels/job.h"

namespace slip::backend::cuda {

inline constexpr int kProductThreads = kWarps * 32;
inline constexpr int kColumnStride =
    18;  // floats between columns of a warp's sums: lanes then hit nearly distinct banks
inline constexpr int kSumFloats = 8 * kColumnStride;

/// Chunks a warp has under way. Deep: about 75 to 100 KiB a block, which with two blocks on a multiprocessor
/// (one multiplying, one of the next kernel waiting) is several times what hides the latency of the memory.
/// Where wide rows need the room, a third or half of that, which still hides it.
__host__ __device__ constexpr int stages_of(Format format, int subtiles, bool deep) {
  const int stages = (format == Format::kAffine4 ? (deep ? 8 : 4) : (deep ? 6 : 4)) / subtiles;
  return stages < 2 ? 2 : stages;
}

/// What a block keeps in shared memory, in this order.
struct SharedPlan {
  int64_t ring = 0, sums = 0, rows = 0, group_sums = 0, partial = 0, factors = 0, active = 0, end = 0;
};

__host__ __device__ inline SharedPlan shared_plan(const PackedMatrix& matrix, int stages, int count,
                                                  int tiles) {
  const int64_t padded = (matrix.cols + kPaddedCols - 1) / kPaddedCols * kPaddedCols;
  SharedPlan plan;
  plan.sums = kWarps * stages * matrix.chunk_bytes;
  plan.rows = plan.sums + int64_t{kWarps} * matrix.subtiles * tiles * kSumFloats * 4;
  plan.group_sums = plan.rows + padded * 4 * count;
  plan.partial = plan.group_sums + padded / kPaddedCols * matrix.groups * 8 * tiles * 4;
  plan.factors = plan.partial + kWarps * kMaxRows * 4;
  plan.active = plan.factors + 2 * kMaxRows * 4;
  plan.end = plan.active + (matrix.count > 1 ? kMaxListed * 4 : 0);
  return plan;
}

/// The kernel for jobs of one format, or of several, by column tiles of 8 rows.
using ProductKernel = void (*)(Job);
ProductKernel narrow_kernel(bool deep, bool mixed, Format format, int groups);
ProductKernel wide_kernel(bool deep, bool mixed, Format format, int groups);

}  // namespace slip::backend::cuda
