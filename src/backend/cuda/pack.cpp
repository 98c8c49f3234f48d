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

// A slice's columns, of all rows of a step, must fit in shared memory; and with fewer tiles than this there
// is not enough work for every multiprocessor unless the columns are shared out too.
constexpr int64_t kMostSliceCols = 5376, kFewTiles = 264, kLeastSliceCols = 2048;

int slices_for(const Matrix& matrix, int64_t tiles) {
  int slices = 1;
  while (2 * slices <= kMaxSlices && matrix.cols % (2 * slices * kPaddedCols) == 0 &&
         (matrix.group == 0 || matrix.cols / (2 * slices) % matrix.group == 0)) {
    const bool wide = matrix.cols / slices > kMostSliceCols;
    const bool few = tiles * slices < kFewTiles && matrix.cols / (2 * slices) >= kLeastSliceCols;
    if (!wide && !few) break;
    slices *= 2;
  }
  return slices;
}

int parts_for(int64_t blocks_of_64) {
  int parts = 1;
  while (parts < kWarps && blocks_of_64 >= int64_t{4} * parts) parts *= 2;
  return parts;
}

/// Sixteen rows of a matrix as codes or bf16 bits, padded with zero.
class Rows16 {
 public:
  Rows16(const Matrix& matrix, const PackedMatrix& packed)
      : matrix_(matrix),
        reader_(matrix),
        cols_(packed.cols),
        padded_((packed.cols + kPaddedCols - 1) / kPaddedCols * kPaddedCols),
        groups_(packed.groups),
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
            to_bf16(scales_[from]).bits | static_cast<uint32_t>(to_bf16(biases_[from]).bits) << 16;
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

/// The codes of one subtile in one chunk.
void put_codes(const Rows16& rows, Format format, int64_t chunk, std::byte* to) {
  const auto put = [&](size_t word, uint32_t value) { std::memcpy(to + word * 4, &value, 4); };
  for (int lane = 0; lane < 32; ++lane) {
    const auto at = static_cast<size_t>(lane);
    switch (format) {
      case Format::kBf16:
        for (size_t step = 0; step < 2; ++step) {
          for (int i = 0; i < 4; ++i) {
            const Pair pair = operand(rows, chunk * 2 + static_cast<int64_t>(step), lane, i);
            put(step * 128 + at * 4 + static_cast<size_t>(i), pair.low | pair.high << 16);
          }
        }
        break;
      case Format::kAffine8:
        for (size_t step = 0; step < 4; ++step) {
          for (size_t half = 0; half < 2; ++half) {
            const auto source = chunk * 4 + static_cast<int64_t>(step);
            const Pair even = operand(rows, source, lane, static_cast<int>(half) * 2);
            const Pair odd = operand(rows, source, lane, static_cast<int>(half) * 2 + 1);
            put(step / 2 * 128 + at * 4 + step % 2 * 2 + half,
                even.low | odd.low << 8 | even.high << 16 | odd.high << 24);
          }
        }
        break;
      case Format::kAffine4:
        for (size_t step = 0; step < 4; ++step) {
          uint32_t word = 0;
          for (int i = 0; i < 4; ++i) {
            const Pair pair = operand(rows, chunk * 4 + static_cast<int64_t>(step), lane, i);
            word |= pair.low << (4 * i) | pair.high << (16 + 4 * i);
          }
          put(at * 4 + step, word);
        }
        break;
    }
  }
}

void put_scales(const Rows16& rows, int groups, int64_t chunk, std::byte* to) {
  for (int group = 0; group < groups; ++group) {
    for (int g = 0; g < 8; ++g) {
      for (int half = 0; half < 2; ++half) {
        const uint32_t pair = rows.scale(g + 8 * half, chunk * groups + group);
        std::memcpy(to + group * 64 + g * 8 + half * 4, &pair, 4);
      }
    }
  }
}

PackedMatrix plan(const Matrix& source, int64_t rows, const Matrix* other, int slices) {
  require_supported(source);
  PackedMatrix packed;
  packed.rows = static_cast<int>(rows);
  packed.cols = static_cast<int>(source.cols / slices);
  packed.slices = slices;
  packed.count = static_cast<int>(source.rows / rows);
  packed.pair = other != nullptr;
  packed.subtiles = packed.pair || rows >= kTallRows ? 2 : 1;
  const int64_t padded = (packed.cols + kPaddedCols - 1) / kPaddedCols * kPaddedCols;
  int code_bytes = 1024;
  if (source.encoding == Encoding::kFloat) {
    packed.format = Format::kBf16;
    packed.chunks = static_cast<int>(padded / 32);
  } else {
    packed.format = source.bits <= 4 ? Format::kAffine4 : Format::kAffine8;
    packed.groups = source.group == 32 ? 2 : 1;
    packed.chunks = static_cast<int>(padded / 64);
    if (packed.format == Format::kAffine4) code_bytes = 512;
  }
  if (packed.pair) {
    require_supported(*other);
    const bool same = other->encoding == source.encoding && other->rows == source.rows &&
                      other->cols == source.cols && other->group == source.group &&
                      (other->bits <= 4) == (source.bits <= 4);
    if (!same) fail_file("{} and {} are stored differently; use --device cpu", source.name, other->name);
  }
  packed.chunk_bytes = packed.subtiles * (code_bytes + 64 * packed.groups);
  const int64_t tile_rows = packed.pair ? 16 : 16 * packed.subtiles;
  packed.tiles = static_cast<int>((rows + tile_rows - 1) / tile_rows);
  packed.parts = parts_for(padded / kPaddedCols);
  return packed;
}

}  // namespace

PackedMatrix plan(const Matrix& source, int64_t rows, const Matrix* other) {
  return plan(source, rows, other, 1);
}

PackedMatrix plan_sliced(const Matrix& source) {
  return plan(source, source.rows, nullptr, slices_for(source, (source.rows + 15) / 16));
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
      std::byte* to = host + i * packed.tile_bytes();
      for (int s = 0; s < packed.subtiles; ++s) {
        Rows16& rows = s == 0 ? one : two;
        const int64_t row = tile * tile_rows + (packed.pair ? 0 : 16 * s);
        rows.load(matrix * packed.rows + row, std::clamp<int64_t>(packed.rows - row, 0, 16), col);
        const int code_bytes = packed.format == Format::kAffine4 ? 512 : 1024;
        for (int64_t chunk = 0; chunk < packed.chunks; ++chunk) {
          std::byte* at = to + chunk * packed.chunk_bytes;
          put_codes(rows, packed.format, chunk, at + s * code_bytes);
          put_scales(rows, packed.groups, chunk, at + packed.subtiles * code_bytes + s * packed.groups * 64);
        }
      }
    }
    pool.barrier();
  });
}

}  // namespace slip::backend::cuda
