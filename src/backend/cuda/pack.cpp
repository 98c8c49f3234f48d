#include "backend/cuda/pack.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/float16.h"

namespace slip::backend::cuda {
namespace {

using tensor::Encoding;
using tensor::Matrix;

// From this many rows on, tiles of 32 rows still give every multiprocessor several; they read the activations
// from shared memory half as often.
constexpr int64_t kTallRows = 8192;

void require_supported(const Matrix& matrix) {
  if (matrix.encoding == Encoding::kFloat) {
    if (matrix.weight->dtype() == tensor::DType::kBf16) return;
    fail_file(
        "{}: is stored as {}, and the CUDA kernels have bf16, 8-bit and 4-bit matrices; use --device cpu",
        matrix.name, tensor::name_of(matrix.weight->dtype()));
  }
  if (matrix.group != 32 && matrix.group != 64 && matrix.group != 128) {
    fail_file("{}: has groups of {} columns, and the CUDA kernels have 32, 64 and 128; use --device cpu",
              matrix.name, matrix.group);
  }
  for (const auto* part : {matrix.scales, matrix.biases}) {
    if (part->dtype() == tensor::DType::kBf16) continue;
    fail_file("{}: has scales of type {}, and the CUDA kernels have bf16; use --device cpu", matrix.name,
              tensor::name_of(part->dtype()));
  }
}

// A slice's columns, of up to four rows, must fit in shared memory beside two places of every ring; those of
// eight rows where the model's other matrices, which have a column for every row of this one, allow it, else
// all weights are read twice for five rows. And with fewer tiles than this there is not enough work for every
// multiprocessor unless the columns are shared out too.
constexpr int64_t kMostSliceCols = 5376, kMostColsOfEight = 3840, kFewTiles = 264, kLeastSliceCols = 2048;

int slices_for(const Matrix& matrix, int64_t tiles) {
  const int64_t most = matrix.rows <= kMostColsOfEight ? kMostColsOfEight : kMostSliceCols;
  int slices = 1;
  while (2 * slices <= kMaxSlices && matrix.cols % (2 * slices * kPaddedCols) == 0 &&
         (matrix.group == 0 || matrix.cols / (2 * slices) % matrix.group == 0)) {
    const bool wide = matrix.cols / slices > most;
    const bool few = tiles * slices < kFewTiles && matrix.cols / (2 * slices) >= kLeastSliceCols;
    if (!wide && !few) break;
    slices *= 2;
  }
  return slices;
}

/// How many warps share the columns of a tile: so that the busiest warp has little more to multiply than the
/// others, and there are few sums to exchange. Times in microseconds as `cuda_products parts` gives them on
/// an H200; counted for 132 multiprocessors on any device, because the order of sums depends on it.
int parts_for(const PackedMatrix& packed) {
  constexpr int kProcessors = 132, kExpectedMatrices = 8;
  const double piece = packed.subtiles == 1 ? 0.27 : 0.39, round = 0.15;
  const int blocks = kProcessors / packed.slices;
  const int tiles = packed.tiles * (packed.count > 1 ? kExpectedMatrices : 1);
  const int most = (tiles + blocks - 1) / blocks;  // of a multiprocessor
  const double eight = packed.subtiles == 1 ? 1.0 : most > 1 ? 1.5 : 0.3;
  const auto sums = [&](int parts) {
    return parts == 16 ? 1.0 : parts == 8 ? eight : parts == 1 ? 0.3 : parts == 2 ? 0.2 : 0;
  };
  int best = 1;
  double lowest = 0;
  for (int parts = 1; parts <= std::min(kWarps, packed.pieces); parts *= 2) {
    const int slots = kWarps / parts, rounds = (most + slots - 1) / slots;
    const double cost = rounds * (piece * ((packed.pieces + parts - 1) / parts) + round) + sums(parts);
    if (parts == 1 || cost < lowest) {
      lowest = cost;
      best = parts;
    }
  }
  return best;
}

/// Sixteen rows of a matrix as codes or bf16 bits, padded with zero.
class Rows16 {
 public:
  Rows16(const Matrix& matrix, const PackedMatrix& packed)
      : matrix_(matrix),
        reader_(matrix),
        cols_(packed.cols),
        padded_(packed.padded_cols()),
        groups_(packed.groups),
        format_(packed.format),
        values_(static_cast<size_t>(16 * padded_)),
        codes_(static_cast<size_t>(matrix.cols)),
        scales_(static_cast<size_t>(matrix.cols)),
        biases_(static_cast<size_t>(matrix.cols)),
        pairs_(static_cast<size_t>(16 * padded_ / 32)) {}

  /// Columns from `col` on.
  void load(int64_t first, int64_t count, int64_t col) {
    std::fill(values_.begin(), values_.end(), uint16_t{0});
    std::fill(pairs_.begin(), pairs_.end(), 0u);
    for (int64_t r = 0; r < count; ++r) {
      uint16_t* row = &values_[static_cast<size_t>(r * padded_)];
      if (groups_ == 0) {
        std::memcpy(row, reader_.stored(first + r) + col * 2, static_cast<size_t>(cols_) * 2);
        continue;
      }
      reader_.codes(first + r, codes_.data(), scales_.data(), biases_.data());
      for (int64_t c = 0; c < cols_; ++c) row[c] = codes_[static_cast<size_t>(col + c)];
      const int64_t span = kPaddedCols / groups_, count_of = padded_ / span;
      for (int64_t g = 0; g * span < cols_; ++g) {
        const auto from = static_cast<size_t>((col + g * span) / matrix_.group);
        pairs_[static_cast<size_t>(r * count_of + g)] =
            to_bf16(scales_[from] * kept_scale(format_, static_cast<int>(r))).bits |
            static_cast<uint32_t>(to_bf16(biases_[from]).bits) << 16;
      }
    }
  }

  uint32_t value(int row, int64_t col) const { return values_[static_cast<size_t>(row * padded_ + col)]; }
  uint32_t scale(int row, int64_t group) const {
    return pairs_[static_cast<size_t>(row * (padded_ / (kPaddedCols / groups_)) + group)];
  }

 private:
  const Matrix& matrix_;
  tensor::RowReader reader_;
  int64_t cols_, padded_;
  int groups_;
  Format format_;
  std::vector<uint16_t> values_;  // [16][padded]
  std::vector<uint8_t> codes_;
  std::vector<float> scales_, biases_;
  std::vector<uint32_t> pairs_;  // [16][groups]: scale, bias
};

/// Register `i` of lane's operand at a step of 16 columns: its two values.
struct Pair {
  uint32_t low, high;
};
Pair operand(const Rows16& rows, int64_t step, int lane, int i) {
  const int row = lane / 4 + 8 * (i % 2);
  const int64_t col = step * 16 + 2 * (lane % 4) + 8 * (i / 2);
  return {rows.value(row, col), rows.value(row, col + 1)};
}

void put(std::byte* to, size_t word, uint32_t value) {
  std::memcpy(to + word * 4, &value, 4);
}

/// Operands of 32 columns: [step][lane][register].
void put_floats(const Rows16& rows, int64_t step, std::byte* to) {
  for (size_t i = 0; i < 256; ++i) {
    const Pair pair = operand(rows, step + static_cast<int64_t>(i / 128), static_cast<int>(i / 4 % 32),
                              static_cast<int>(i % 4));
    put(to, i, pair.low | pair.high << 16);
  }
}

/// The codes of 64 columns, of 4 bits: [lane][step].
void put_nibbles(const Rows16& rows, int64_t step, std::byte* to) {
  for (size_t i = 0; i < 128; ++i) {
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j) {
      const Pair pair = operand(rows, step + static_cast<int64_t>(i % 4), static_cast<int>(i / 4), j);
      word |= pair.low << (4 * j) | pair.high << (16 + 4 * j);
    }
    put(to, i, word);
  }
}
/// The same of 8 bits: [two steps][lane][step][word].
void put_bytes(const Rows16& rows, int64_t step, std::byte* to) {
  for (size_t i = 0; i < 256; ++i) {
    uint32_t word = 0;
    for (int j = 0; j < 2; ++j) {
      const Pair pair = operand(rows, step + static_cast<int64_t>(i / 128 * 2 + i / 2 % 2),
                                static_cast<int>(i / 4 % 32), static_cast<int>(i % 2) * 2 + j);
      word |= pair.low << (8 * j) | pair.high << (16 + 8 * j);
    }
    put(to, i, word);
  }
}

/// Scales and biases of `count` groups: [g][group][scales of rows g, g + 8; their biases].
void put_scales(const Rows16& rows, int64_t group, int count, std::byte* to) {
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < count; ++i) {
      const uint32_t one = rows.scale(g, group + i), two = rows.scale(g + 8, group + i);
      put(to, static_cast<size_t>((g * count + i) * 2), (one & 0xffff) | two << 16);
      put(to, static_cast<size_t>((g * count + i) * 2 + 1), one >> 16 | (two & 0xffff0000));
    }
  }
}

/// One subtile's share of a piece.
void put_piece(const Rows16& rows, const PackedMatrix& packed, int64_t piece, int subtile, std::byte* to) {
  if (packed.format == Format::kBf16) return put_floats(rows, piece * 2, to + subtile * 1024);
  const int groups = groups_of_piece(packed.format, packed.groups);
  put_scales(rows, piece * groups, groups, to + subtile * groups * 64);
  to += packed.subtiles * groups * 64;
  if (is_eights(packed.format)) return put_bytes(rows, piece * 4, to + subtile * 1024);
  put_nibbles(rows, piece * 8, to + subtile * 512);
  if (static_cast<int64_t>(packed.piece_bytes) * (piece + 1) <= packed.tile_bytes)
    put_nibbles(rows, piece * 8 + 4, to + (packed.subtiles + subtile) * 512);
}

PackedMatrix plan(const Matrix& source, int64_t rows, const Matrix* other, int slices, RowsAs rows_as) {
  require_supported(source);
  if (other != nullptr) {
    require_supported(*other);
    const bool same = other->encoding == source.encoding && other->rows == source.rows &&
                      other->cols == source.cols && other->group == source.group &&
                      (other->bits <= 4) == (source.bits <= 4);
    if (!same) fail_file("{} and {} are stored differently; use --device cpu", source.name, other->name);
  }
  MatrixShape shape{.rows = rows, .cols = source.cols, .pair = other != nullptr, .slices = slices};
  shape.count = static_cast<int>(source.rows / rows);
  if (source.encoding != Encoding::kFloat) {
    shape.format = format_of(source.bits <= 4, rows_as);
    shape.groups = source.group == 32 ? 2 : 1;
  }
  return plan(shape);
}

}  // namespace

PackedMatrix plan(const MatrixShape& shape) {
  PackedMatrix packed;
  packed.format = shape.format;
  packed.groups = shape.groups;
  packed.rows = static_cast<int>(shape.rows);
  packed.cols = static_cast<int>(shape.cols / shape.slices);
  packed.slices = shape.slices;
  packed.count = shape.count;
  packed.pair = shape.pair;
  packed.subtiles = shape.pair || shape.rows >= kTallRows ? 2 : 1;
  const int in_piece = piece_cols(shape.format);
  const int padded = (packed.cols + kPaddedCols - 1) / kPaddedCols * kPaddedCols;
  packed.pieces = (padded + in_piece - 1) / in_piece;
  packed.piece_bytes = packed.subtiles * (1024 + groups_of_piece(shape.format, shape.groups) * 64);
  packed.tile_bytes = packed.pieces * packed.piece_bytes;
  if (packed.padded_cols() > padded) packed.tile_bytes -= packed.subtiles * 512;
  const int64_t tile_rows = packed.pair ? 16 : 16 * packed.subtiles;
  packed.tiles = static_cast<int>((shape.rows + tile_rows - 1) / tile_rows);
  packed.parts = parts_for(packed);
  return packed;
}

PackedMatrix plan(const Matrix& source, int64_t rows, const Matrix* other, RowsAs rows_as) {
  return plan(source, rows, other, 1, rows_as);
}

PackedMatrix plan_sliced(const Matrix& source, RowsAs rows_as) {
  return plan(source, source.rows, nullptr, slices_for(source, (source.rows + 15) / 16), rows_as);
}

namespace {

/// The tiles of one matrix of a stack, or of one slice, among [first, end).
struct TilesOfOne {
  int64_t index, first, end;  // in it
  int64_t before;             // of the others
};
TilesOfOne tiles_of_one(const PackedMatrix& packed, int64_t index, int64_t first, int64_t end) {
  const int64_t begin = index * packed.tiles;
  const int64_t from = std::max(first, begin);
  return {index, from - begin, std::min<int64_t>(end - begin, packed.tiles), from - first};
}
/// They lie behind one another like a matrix that has no others.
PackedMatrix layout_of(const PackedMatrix& packed, const TilesOfOne& tiles) {
  PackedMatrix one = packed;
  one.tiles = static_cast<int>(tiles.end - tiles.first);
  return one;
}

}  // namespace

std::vector<PackedRange> ranges_of(const PackedMatrix& packed, int64_t first, int64_t end) {
  std::vector<PackedRange> ranges;
  for (int64_t index = first / packed.tiles; index * packed.tiles < end; ++index) {
    const TilesOfOne tiles = tiles_of_one(packed, index, first, end);
    const PackedMatrix one = layout_of(packed, tiles);
    for (int part = 0; part < packed.parts; ++part) {
      const int piece = packed.part_begin(part);
      if (piece == packed.part_begin(part + 1)) continue;
      const PackedRange range{
          .host = tiles.before * packed.tile_bytes + one.offset(0, piece),
          .device = index * packed.matrix_bytes() + packed.offset(static_cast<int>(tiles.first), piece),
          .bytes = int64_t{packed.part_bytes(part)} * one.tiles};
      const bool goes_on = !ranges.empty() && ranges.back().host + ranges.back().bytes == range.host &&
                           ranges.back().device + ranges.back().bytes == range.device;
      if (goes_on) {
        ranges.back().bytes += range.bytes;
      } else {
        ranges.push_back(range);
      }
    }
  }
  return ranges;
}

void pack(const Matrix& source, const Matrix* other, const PackedMatrix& packed, int64_t first, int64_t end,
          std::byte* host, ThreadPool& pool) {
  const int64_t tile_rows = packed.pair ? 16 : 16 * packed.subtiles;
  pool.run([&](int thread) {
    Rows16 one(source, packed), two(other != nullptr ? *other : source, packed);
    for (int64_t i = pool.next(thread, end - first); i >= 0; i = pool.next(thread, end - first)) {
      const int64_t index = (first + i) / packed.tiles, tile = (first + i) % packed.tiles;
      const int64_t matrix = packed.slices > 1 ? 0 : index;
      const int64_t col = packed.slices > 1 ? index * packed.cols : 0;
      const TilesOfOne tiles = tiles_of_one(packed, index, first, end);
      const PackedMatrix one_of = layout_of(packed, tiles);
      std::byte* to = host + tiles.before * packed.tile_bytes;
      const auto in_range = static_cast<int>(tile - tiles.first);
      for (int s = 0; s < packed.subtiles; ++s) {
        Rows16& rows = s == 0 ? one : two;
        const int64_t row = tile * tile_rows + (packed.pair ? 0 : 16 * s);
        rows.load(matrix * packed.rows + row, std::clamp<int64_t>(packed.rows - row, 0, 16), col);
        for (int piece = 0; piece < packed.pieces; ++piece)
          put_piece(rows, packed, piece, s, to + one_of.offset(in_range, piece));
      }
    }
    pool.barrier();
  });
}

}  // namespace slip::backend::cuda
