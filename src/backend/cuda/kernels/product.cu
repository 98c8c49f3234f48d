// Planning and starting products (product_kernel.h).
#include <algorithm>
#include <string>

#include "backend/cuda/kernels/launch.h"
#include "backend/cuda/kernels/product_shared.h"

namespace slip::backend::cuda {
namespace {

int64_t shared_bytes(const Job& job, int count, bool deep) {
  int64_t most = 0;
  for (int i = 0; i < job.segment_count; ++i) {
    const PackedMatrix& matrix = job.segments[i].matrix;
    const int stages = stages_of(matrix.format, matrix.subtiles, deep);
    most = std::max(most, shared_plan(matrix, stages, count, count > 8 ? 2 : 1).end);
  }
  return most;
}

}  // namespace

void prepare_products(Gpu& gpu) {
  for (const auto kernels : {narrow_kernel, wide_kernel}) {
    for (const bool deep : {false, true}) {
      allow_shared(kernels(deep, true, Format::kBf16, 0), gpu.info().shared_bytes);
      allow_shared(kernels(deep, false, Format::kBf16, 0), gpu.info().shared_bytes);
      for (const int groups : {1, 2}) {
        allow_shared(kernels(deep, false, Format::kAffine4, groups), gpu.info().shared_bytes);
        allow_shared(kernels(deep, false, Format::kAffine8, groups), gpu.info().shared_bytes);
      }
    }
  }
}

void plan_blocks(const Gpu& gpu, Job& job, int listed) {
  const auto groups_of = [&](const Segment& segment) {
    const PackedMatrix& matrix = segment.matrix;
    const int slots = kWarps / matrix.parts;
    return (matrix.tiles + slots - 1) / slots * (matrix.count > 1 ? listed : 1);
  };
  const auto bytes_of = [&](const Segment& segment) {
    return static_cast<double>(segment.matrix.matrix_bytes()) * (segment.matrix.count > 1 ? listed : 1);
  };
  double total = 0;
  for (int i = 0; i < job.segment_count; ++i) total += bytes_of(job.segments[i]);
  int next = 0;
  const int processors = gpu.info().processors;
  for (int i = 0; i < job.segment_count; ++i) {
    Segment& segment = job.segments[i];
    const int share = static_cast<int>(processors * bytes_of(segment) / total + 0.5);
    segment.first_block = next;
    segment.blocks = std::clamp(share, 1, std::max(1, groups_of(segment)));
    next += segment.blocks;
  }
  const auto limit = static_cast<int64_t>(gpu.info().shared_bytes);
  job.rows_per_pass = std::min(job.rows, kMaxRows);
  while (job.rows_per_pass > 1 && shared_bytes(job, job.rows_per_pass, false) > limit) --job.rows_per_pass;
  // Even passes, and 8 rows rather than 9: the tensor cores take 8 columns at a time.
  const int passes = (job.rows + job.rows_per_pass - 1) / job.rows_per_pass;
  job.rows_per_pass = (job.rows + passes - 1) / passes;
  job.deep = shared_bytes(job, job.rows_per_pass, true) <= limit;
  if (shared_bytes(job, job.rows_per_pass, false) > limit) {
    fail_gpu("a matrix with " + std::to_string(job.segments[0].matrix.cols) +
             " columns is too wide for the shared memory of this GPU; use --device cpu");
  }
}

void product(Gpu& gpu, const Job& job) {
  const Segment& last = job.segments[job.segment_count - 1];
  const PackedMatrix& matrix = job.segments[0].matrix;
  bool mixed = false;
  for (int i = 1; i < job.segment_count; ++i) {
    const PackedMatrix& other = job.segments[i].matrix;
    mixed |= other.format != matrix.format || other.groups != matrix.groups;
  }
  const auto kernels = job.rows_per_pass > 8 ? wide_kernel : narrow_kernel;
  const ProductKernel kernel = kernels(job.deep, mixed, matrix.format, matrix.groups);
  launch(gpu,
         {.blocks = last.first_block + last.blocks,
          .threads = kProductThreads,
          .shared_bytes = static_cast<size_t>(shared_bytes(job, job.rows_per_pass, job.deep))},
         kernel, job);
}

}  // namespace slip::backend::cuda
