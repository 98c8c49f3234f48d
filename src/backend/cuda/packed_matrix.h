// PackedMatrix: a weight matrix in device memory, in the order product.cu streams it.
//
// Rows are cut into tiles of 16, or of two times 16 (`subtiles`); of a pair of matrices (gate and up) a tile
// holds 16 rows of each. A tile is a sequence of chunks of columns, 64 of an affine matrix, 32 of a bf16 one;
// a chunk holds, for each subtile, the 16-row operands of mma.m16n8k16 in the order of its lanes, 16 bytes a
// lane at a time, and then for each subtile and group of columns 16 pairs (scale, bias) of bf16. So a warp
// copies a chunk with whole 512-byte requests and every lane multiplies what it has copied itself.
//   bf16      [step of 16 columns][lane][4 registers]
//   8 bits    [two steps][lane][step][8 codes]: bytes 0, 2 are register 0, bytes 1, 3 register 1, ...
//   4 bits    [lane][step][8 codes]: nibbles i and i + 4 are register i
// Scales: [lane / 4][rows g and g + 8][scale, bias]. Columns are padded to 64 with zero, rows to whole tiles;
// groups of 128 columns appear as two of 64. `parts` warps share the columns of a tile: part p has chunks
// p * chunks / parts .. (p + 1) * chunks / parts. A matrix of few rows and many columns is cut into slices of
// columns first, packed one after another, whose products are added by whoever reads them. Both splits, and
// so the order of every sum, depend on the shape of the matrix alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slip::backend::cuda {

inline constexpr int kWarps = 16;  // of a block of product.cu
inline constexpr int kPaddedCols = 64;
inline constexpr int kMaxSlices = 4;

enum class Format : int { kBf16, kAffine8, kAffine4 };

struct PackedMatrix {
  const std::byte* data = nullptr;  // on the device
  Format format = Format::kBf16;
  int groups = 0;  // of columns with a scale, per chunk: 1, 2; 0 for bf16
  int subtiles = 1;
  bool pair = false;
  int rows = 0;  // of each of a pair
  int cols = 0;  // of a slice
  int slices = 1;
  int chunks = 0;  // per tile
  int tiles = 0;
  int parts = 1;
  int count = 1;  // matrices of this shape behind one another: experts, clusters; not with slices
  int64_t chunk_bytes = 0;

  constexpr bool present() const { return tiles > 0; }
  constexpr int64_t tile_bytes() const { return chunk_bytes * chunks; }
  constexpr int64_t matrix_bytes() const { return tile_bytes() * tiles; }
  size_t bytes() const { return static_cast<size_t>(matrix_bytes() * count * slices); }
  /// Slice i as a matrix of its own.
  PackedMatrix slice(int i) const {
    PackedMatrix one = *this;
    one.slices = 1;
    one.data = data + i * matrix_bytes();
    return one;
  }
};

}  // namespace slip::backend::cuda
