#include "backend/cuda/kernels/twin_plan.h"

namespace slip::backend::cuda {
namespace {

/// Neither twin sees a whole row, so nothing may have to be added to it, and its squares must be known. Of a
/// stack the rows of a block's share of matrices are few already.
bool suits_twins(const Segment& segment) {
  const Input& in = segment.in;
  return segment.matrix.count == 1 && segment.matrix.has_halves() &&
         in.cols > segment.matrix.half(0).padded_cols() && in.rows != nullptr && in.branch == nullptr &&
         in.slots == 0 && in.keep == nullptr && in.tap == nullptr &&
         (!segment.normed || in.squares != nullptr);
}

}  // namespace

bool suits_twins(const Job& job, const GpuInfo& gpu) {
  if (!job.twins || !gpu.twins || gpu.processors % 2 != 0 || job.segment_count == 0) return false;
  if (2 * job.segment_count > kMaxSegments || 2 * job.segment_count > gpu.processors) return false;
  for (int i = 0; i < job.segment_count; ++i) {
    if (!suits_twins(job.segments[i])) return false;
  }
  return true;
}

Job shared_by_twins(const Job& job) {
  Job shared = job;
  shared.segment_count = 0;
  for (int i = 0; i < job.segment_count; ++i) {
    for (int twin = 0; twin < 2; ++twin) {
      Segment& half = shared.segments[shared.segment_count++];
      half = job.segments[i];
      half.twin = twin;
      half.first_block *= 2;
      half.matrix = half.matrix.half(twin);
      const int before = twin == 0 ? 0 : half.matrix.padded_cols();
      half.in.all_cols = half.in.cols;
      half.in.cols = twin == 0 ? half.matrix.padded_cols() : half.in.cols - before;
      half.in.rows += before;
      if (half.norm != nullptr) half.norm += before;
      if (half.keep_normed != nullptr) half.keep_normed += before;
    }
  }
  shared.blocks *= 2;
  return shared;
}

}  // namespace slip::backend::cuda
