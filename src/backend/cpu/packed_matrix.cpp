#include "backend/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/float16.h"

namespace slip::backend::cpu {

namespace {

using tensor::DType;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

int64_t block_cols(int group) {
  return std::max(64, group);
}

size_t header_bytes(const PackedMatrix& packed) {
  const auto groups = static_cast<size_t>(block_cols(packed.group) / packed.group);
  return groups * 2 * kPanelRows * (packed.wide_scales ? sizeof(float) : sizeof(Bf16));
}

size_t block_bytes(const PackedMatrix& packed) {
  const auto cols = static_cast<size_t>(block_cols(packed.group));
  return header_bytes(packed) + cols * kPanelRows / (packed.kind == PackedKind::kAffine4 ? 2 : 1);
}

/// Copies `count` elements of kBytes each from a row to every kPanelRows-th place of a panel.
template <size_t kBytes>
void scatter(const std::byte* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + static_cast<size_t>(i) * kPanelRows * kBytes, from + static_cast<size_t>(i) * kBytes,
                kBytes);
}

/// One panel of a float matrix.
void pack_float_panel(tensor::RowReader& reader, const PackedMatrix& packed, int64_t first_row,
                      int64_t panel) {
  std::byte* out = packed.data + static_cast<size_t>(panel) * packed.panel_stride;
  std::memset(out, 0, packed.panel_bytes);
  const int64_t rows = std::min<int64_t>(kPanelRows, packed.rows - panel * kPanelRows);
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* source = reader.stored(first_row + panel * kPanelRows + r);
    if (packed.kind == PackedKind::kF32) {
      scatter<4>(source, packed.cols, out + 4 * r);
    } else if (packed.kind == PackedKind::kF16) {
      scatter<2>(source, packed.cols, out + 2 * r);
    } else {  // pairs of columns
      scatter<4>(source, packed.cols / 2, out + 4 * r);
      if (packed.cols % 2 != 0)
        std::memcpy(out + (packed.cols / 2 * kPanelRows + r) * 4, source + (packed.cols - 1) * 2, 2);
    }
  }
}

void put_scale(std::byte* at, float value, bool wide) {
  if (wide) {
    std::memcpy(at, &value, sizeof(value));
  } else {
    const Bf16 narrow = to_bf16(value);
    std::memcpy(at, &narrow, sizeof(narrow));
  }
}

struct AffineScratch {
  std::vector<uint8_t> codes;  // padded with zeros to whole blocks
  std::vector<float> scales, biases;
};

/// Codes of one row into the panel, 64 columns at a time.
void put_codes(const PackedMatrix& packed, const uint8_t* codes, int64_t row, uint8_t* panel) {
  const int64_t block = block_cols(packed.group);
  const size_t header = header_bytes(packed), stride = block_bytes(packed);
  const size_t sub_bytes = size_t{64} * kPanelRows / (packed.kind == PackedKind::kAffine4 ? 2 : 1);
  for (int64_t c = 0; c < padded_cols(packed.cols, packed.group); c += 64, codes += 64) {
    uint8_t* to = panel + static_cast<size_t>(c / block) * stride + header +
                  static_cast<size_t>(c % block / 64) * sub_bytes + 4 * row;
    if (packed.kind == PackedKind::kAffine8) {
      for (int step = 0; step < 16; ++step) std::memcpy(to + step * 4 * kPanelRows, codes + 4 * step, 4);
      continue;
    }
    for (int step = 0; step < 8; ++step) {
      uint32_t low, high;
      std::memcpy(&low, codes + 4 * step, 4);
      std::memcpy(&high, codes + 32 + 4 * step, 4);
      const uint32_t both = low | high << 4;
      std::memcpy(to + step * 4 * kPanelRows, &both, 4);
    }
  }
}

void pack_affine_panel(tensor::RowReader& reader, const PackedMatrix& packed, int64_t first_row,
                       int64_t panel, AffineScratch& scratch) {
  auto* out = reinterpret_cast<uint8_t*>(packed.data + static_cast<size_t>(panel) * packed.panel_stride);
  std::memset(out, 0, packed.panel_bytes);
  const int64_t rows = std::min<int64_t>(kPanelRows, packed.rows - panel * kPanelRows);
  const int64_t block = block_cols(packed.group), groups = packed.cols / packed.group;
  const size_t scale_bytes = packed.wide_scales ? sizeof(float) : sizeof(Bf16), stride = block_bytes(packed);
  scratch.codes.resize(static_cast<size_t>(padded_cols(packed.cols, packed.group)));
  scratch.scales.resize(static_cast<size_t>(groups));
  scratch.biases.resize(static_cast<size_t>(groups));
  for (int64_t r = 0; r < rows; ++r) {
    reader.codes(first_row + panel * kPanelRows + r, scratch.codes.data(), scratch.scales.data(),
                 scratch.biases.data());
    put_codes(packed, scratch.codes.data(), r, out);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t column = g * packed.group;
      auto* scales = reinterpret_cast<std::byte*>(out + static_cast<size_t>(column / block) * stride);
      scales += static_cast<size_t>(column % block / packed.group) * 2 * kPanelRows * scale_bytes;
      put_scale(scales + static_cast<size_t>(r) * scale_bytes, scratch.scales[static_cast<size_t>(g)],
                packed.wide_scales);
      put_scale(scales + static_cast<size_t>(kPanelRows + r) * scale_bytes,
                scratch.biases[static_cast<size_t>(g)], packed.wide_scales);
    }
  }
}

}  // namespace

int64_t padded_cols(int64_t cols, int group) {
  return round_up(cols, block_cols(group));
}

PackedMatrix plan(const tensor::Matrix& matrix, int64_t rows) {
  PackedMatrix packed;
  packed.rows = rows;
  packed.cols = matrix.cols;
  packed.panels = (rows + kPanelRows - 1) / kPanelRows;
  if (matrix.encoding == tensor::Encoding::kAffine) {
    packed.kind = matrix.bits <= 4 ? PackedKind::kAffine4 : PackedKind::kAffine8;
    packed.group = matrix.group;
    packed.wide_scales = matrix.scales->dtype() != DType::kBf16 || matrix.biases->dtype() != DType::kBf16;
    packed.panel_bytes =
        static_cast<size_t>(padded_cols(matrix.cols, matrix.group) / block_cols(matrix.group)) *
        block_bytes(packed);
  } else {
    const DType dtype = matrix.weight->dtype();
    packed.kind = dtype == DType::kBf16  ? PackedKind::kBf16
                  : dtype == DType::kF16 ? PackedKind::kF16
                                         : PackedKind::kF32;
    const int64_t cols = packed.kind == PackedKind::kBf16 ? round_up(matrix.cols, 2) : matrix.cols;
    packed.panel_bytes = static_cast<size_t>(cols * kPanelRows) * tensor::size_of(dtype);
  }
  packed.panel_stride = packed.panel_bytes;
  return packed;
}

void place(PackedMatrix& packed, Carver& carver) {
  packed.data = carver.allocate<std::byte>(packed.bytes());
}

void place_interleaved(PackedMatrix& a, PackedMatrix& b, Carver& carver) {
  SLIP_CHECK(a.panels == b.panels);
  std::byte* data = carver.allocate<std::byte>(a.bytes() + b.bytes());
  a.panel_stride = b.panel_stride = a.panel_bytes + b.panel_bytes;
  a.data = data;
  b.data = data == nullptr ? nullptr : data + a.panel_bytes;
}

void pack(const tensor::Matrix& matrix, int64_t first_row, const PackedMatrix& packed, ThreadPool& pool) {
  // A chunk is large enough that dropping its source pages is worth a system call, small enough to share out
  // evenly.
  const int64_t source_row = std::max<int64_t>(1, matrix.cols * matrix.bits / 8);
  const int64_t chunk = std::clamp<int64_t>((int64_t{1} << 20) / (source_row * kPanelRows), 1, packed.panels);
  const int64_t chunks = (packed.panels + chunk - 1) / chunk;
  pool.run([&](int thread) {
    tensor::RowReader reader(matrix);
    AffineScratch scratch;
    for (int64_t i = pool.next(thread, chunks); i >= 0; i = pool.next(thread, chunks)) {
      const int64_t begin = i * chunk, end = std::min(packed.panels, begin + chunk);
      for (int64_t panel = begin; panel < end; ++panel) {
        if (packed.affine()) {
          pack_affine_panel(reader, packed, first_row, panel, scratch);
        } else {
          pack_float_panel(reader, packed, first_row, panel);
        }
      }
      reader.drop(first_row + begin * kPanelRows, first_row + std::min(packed.rows, end * kPanelRows));
    }
  });
}

}  // namespace slip::backend::cpu
