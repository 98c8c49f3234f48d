// Packing: from a matrix as its checkpoint stores it to the layout of packed_matrix.h, on the host.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/packed_matrix.h"
#include "base/thread_pool.h"
#include "tensor/matrix.h"

namespace slip::backend::cuda {

/// The layout of a matrix, or a stack of them, with these sizes.
struct MatrixShape {
  Format format = Format::kBf16;
  int groups = 0;
  int64_t rows = 0, cols = 0;  // cols: of all slices
  bool pair = false;
  int slices = 1, count = 1;
};
PackedMatrix plan(const MatrixShape& shape);
/// The layout of `source`, cut into matrices of `rows` rows; with `other` for pairs of the same shape. Throws
/// Error(kBadFile) for an encoding that the kernels do not have.
PackedMatrix plan(const tensor::Matrix& source, int64_t rows, const tensor::Matrix* other = nullptr,
                  RowsAs rows_as = RowsAs::kPairs);
/// The same for one matrix whose products are added up by their reader, in slices of columns where that
/// helps.
PackedMatrix plan_sliced(const tensor::Matrix& source, RowsAs rows_as = RowsAs::kPairs);

/// Tiles [first, end), counted through all matrices of the stack or slices, to `host`: those of each matrix
/// as if it had no others.
void pack(const tensor::Matrix& source, const tensor::Matrix* other, const PackedMatrix& packed,
          int64_t first, int64_t end, std::byte* host, ThreadPool& pool);

/// A stretch of what pack() left, and where it belongs in the packed matrix: bytes from the beginning of
/// each.
struct PackedRange {
  int64_t host = 0, device = 0, bytes = 0;
};
std::vector<PackedRange> ranges_of(const PackedMatrix& packed, int64_t first, int64_t end);

}  // namespace slip::backend::cuda
