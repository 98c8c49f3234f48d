// PackedMatrix: a weight matrix in device memory, in the order the product streams it.
//
// Rows are cut into tiles of 16, or of two times 16 (`subtiles`); of a pair of matrices (gate and up) a tile
// holds 16 rows of each. A tile is a sequence of pieces of columns, 128 of a 4-bit matrix, 64 of an 8-bit
// one, 32 of bf16: about a kilobyte per subtile, which one bulk copy brings to shared memory. A piece holds
// first, for each subtile, the scales and biases of its groups of columns, [g][group][scales of rows g and g
// + 8, biases of the same] as bf16; then the 16-row operands of mma.m16n8k16, in the order of its lanes:
//   bf16    [subtile][step of 16 columns][lane][4 registers]
//   4 bits  [64 columns][subtile][lane][step][8 codes]: nibbles i and i + 4 are register i
//   8 bits  [subtile][two steps][lane][step][two words of 4 codes]: bytes i and i + 2 of word j are register
//           2 j + i
// Scales are kept times a power of two: see kept_scale().
// Columns are padded to 64 with zero, so the last piece of 4 bits may be half a piece; rows to whole tiles;
// groups of 128 columns appear as two of 64. `parts` warps share the columns of a tile: part p has pieces
// p * pieces / parts .. (p + 1) * pieces / parts. A matrix lies as [part][tile][piece of the part], so that
// what a warp reads, some tiles one after another, is one stretch of memory. A matrix of few rows and many
// columns is cut into slices of columns first, packed one after another, whose products are added by whoever
// reads them. Both splits, and so the order of every sum, depend on the shape of the matrix alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slip::backend::cuda {

inline constexpr int kWarps = 16;  // of a block
inline constexpr int kPaddedCols = 64;
inline constexpr int kMaxSlices = 4;

/// How weights are stored, and what the rows become that they are multiplied with: pairs of bf16, 16 bits,
/// or, where the format says so, halves, 11 bits (stage.h).
enum class Format : int { kBf16, kAffine8, kAffine4, kAffine8Halves, kAffine4Halves };
inline constexpr Format kFormats[] = {Format::kBf16, Format::kAffine8, Format::kAffine4,
                                      Format::kAffine8Halves, Format::kAffine4Halves};
constexpr bool in_halves(Format format) {
  return format == Format::kAffine8Halves || format == Format::kAffine4Halves;
}
constexpr bool is_fours(Format format) {
  return format == Format::kAffine4 || format == Format::kAffine4Halves;
}
constexpr bool is_eights(Format format) {
  return format == Format::kAffine8 || format == Format::kAffine8Halves;
}
/// Of rows where weights are codes.
enum class RowsAs : int { kPairs, kHalves };
constexpr Format format_of(bool fours, RowsAs rows) {
  if (rows == RowsAs::kHalves) return fours ? Format::kAffine4Halves : Format::kAffine8Halves;
  return fours ? Format::kAffine4 : Format::kAffine8;
}

/// Codes enter the tensor cores as they are, as the lower eight bits of a bf16 or a half. Those are numbers
/// below the normal ones, whole numbers times this, which the tensor cores multiply exactly.
constexpr float code_unit(Format format) {
  return in_halves(format) ? 0x1p-24f : 0x1p-133f;
}
/// To stay clear of the smallest floats, pairs of bf16 are staged times this, so they must be below 2^48; of
/// halves every stretch of columns has a power of two of its own (HalfScale).
inline constexpr float kStagedScale = 0x1p80f;
/// What remains is in the scales of groups: they are kept times this. A 4-bit code of rows 8 to 15 of a tile
/// lies four bits higher than one of the others.
constexpr float kept_scale(Format format, int row) {
  const float unit = is_fours(format) && row / 8 % 2 != 0 ? 0x1p-4f : 1.0f;
  return in_halves(format) ? unit : unit * 0x1p53f;
}

constexpr int piece_cols(Format format) {
  return is_fours(format) ? 128 : is_eights(format) ? 64 : 32;
}
/// Groups with a scale in a piece, where there are `groups` in 64 columns.
constexpr int groups_of_piece(Format format, int groups) {
  return groups * (is_fours(format) ? 2 : 1);
}
/// A column tile is eight columns of the tensor cores: four rows as pairs, or eight as halves.
constexpr int rows_of_tile(Format format) {
  return in_halves(format) ? 8 : 4;
}
/// A format whose rows become halves, or pairs, where that is all that matters.
constexpr Format like(bool halves) {
  return format_of(true, halves ? RowsAs::kHalves : RowsAs::kPairs);
}
/// Column tiles that matter of a kernel that has `tiles` of them for pairs: sixteen rows are two of halves.
constexpr int column_tiles(Format format, int tiles) {
  return in_halves(format) && tiles > 2 ? 2 : tiles;
}
inline constexpr int kStretchCols = 128;  // of a row, that a warp stages at a time

struct PackedMatrix {
  const std::byte* data = nullptr;  // on the device
  Format format = Format::kBf16;
  int groups = 0;  // with a scale, per 64 columns: 1, 2; 0 for bf16
  int subtiles = 1;
  bool pair = false;
  int rows = 0;  // of each of a pair
  int cols = 0;  // of a slice
  int slices = 1;
  int pieces = 0;  // per tile
  int tiles = 0;
  int parts = 1;
  int count = 1;        // matrices of this shape behind one another: experts, clusters; not with slices
  int piece_bytes = 0;  // of all subtiles
  int tile_bytes = 0;

  constexpr bool present() const { return tiles > 0; }
  constexpr int64_t matrix_bytes() const { return static_cast<int64_t>(tile_bytes) * tiles; }
  constexpr int padded_cols() const { return pieces * piece_cols(format); }
  /// The first piece of a part; of the part after the last, where all end.
  constexpr int part_begin(int part) const { return part * pieces / parts; }
  constexpr int part_of(int piece) const { return ((piece + 1) * parts - 1) / pieces; }
  /// Of one tile.
  constexpr int part_bytes(int part) const {
    return part + 1 < parts ? (part_begin(part + 1) - part_begin(part)) * piece_bytes
                            : tile_bytes - part_begin(part) * piece_bytes;
  }
  /// Where a piece of a tile lies in its matrix.
  constexpr int64_t offset(int tile, int piece) const {
    const int part = part_of(piece), begin = part_begin(part);
    return static_cast<int64_t>(begin) * piece_bytes * tiles + static_cast<int64_t>(part_bytes(part)) * tile +
           (piece - begin) * piece_bytes;
  }
  size_t bytes() const { return static_cast<size_t>(matrix_bytes() * count * slices); }
  /// Slice i as a matrix of its own.
  PackedMatrix slice(int i) const {
    PackedMatrix one = *this;
    one.slices = 1;
    one.data = data + i * matrix_bytes();
    return one;
  }
};

/// The pieces of a tile one after another, and those of the tiles behind it.
class PieceWalk {
 public:
  /// `data`: of the matrix.
  constexpr PieceWalk(const PackedMatrix& matrix, const std::byte* data, int tile)
      : at_(data), bytes_(matrix.part_bytes(0)), left_(matrix.part_begin(1)), tile_(tile) {
    at_ += static_cast<int64_t>(tile) * bytes_;
    if (left_ == 0) next_part(matrix);
  }

  /// The piece at hand, and how far it is to that of the next tile.
  constexpr const std::byte* at() const { return at_; }
  constexpr int tile_step() const { return bytes_; }
  constexpr void next(const PackedMatrix& matrix) {
    at_ += matrix.piece_bytes;
    if (--left_ == 0) next_part(matrix);
  }

 private:
  constexpr void next_part(const PackedMatrix& matrix) {
    while (left_ == 0 && ++part_ < matrix.parts) {
      at_ += static_cast<int64_t>(matrix.tiles - tile_ - 1) * bytes_;
      bytes_ = matrix.part_bytes(part_);
      at_ += static_cast<int64_t>(tile_) * bytes_;
      left_ = matrix.part_begin(part_ + 1) - matrix.part_begin(part_);
    }
  }

  const std::byte* at_;
  int bytes_, left_, tile_, part_ = 0;
};

}  // namespace slip::backend::cuda
