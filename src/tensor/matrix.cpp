#include "tensor/matrix.h"

#include <cstring>

#include "base/check.h"
#include "base/float16.h"

namespace slip::tensor {

int64_t StoredTensor::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape_) count *= extent;
  return count;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

void widen(const std::byte* source, DType dtype, int64_t count, float* out) {
  switch (dtype) {
    case DType::kF32: std::memcpy(out, source, static_cast<size_t>(count) * sizeof(float)); return;
    case DType::kBf16:
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) {
        uint16_t bits;
        std::memcpy(&bits, source + 2 * i, sizeof(bits));
        out[i] = dtype == DType::kBf16 ? to_float(Bf16{bits}) : to_float(F16{bits});
      }
      return;
    default: SLIP_CHECK(false && "widen: not a float type");
  }
}

std::vector<float> read_vector(const StoredTensor& tensor) {
  std::vector<std::byte> scratch;
  std::vector<float> out(static_cast<size_t>(tensor.elements()));
  widen(tensor.read(0, tensor.bytes(), scratch), tensor.dtype(), tensor.elements(), out.data());
  return out;
}

void unpack_codes(const std::byte* words, int bits, int64_t count, uint8_t* out) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(words);
  if (bits == 8) {
    std::memcpy(out, bytes, static_cast<size_t>(count));
    return;
  }
  if (bits == 4) {
    for (int64_t i = 0; i < count / 2; ++i) {
      out[2 * i] = bytes[i] & 15;
      out[2 * i + 1] = bytes[i] >> 4;
    }
    return;
  }
  const uint32_t mask = (1u << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bit = i * bits;
    uint32_t window = bytes[bit / 8];
    if (bit % 8 + bits > 8) window |= static_cast<uint32_t>(bytes[bit / 8 + 1]) << 8;
    out[i] = static_cast<uint8_t>((window >> (bit % 8)) & mask);
  }
}

void pack_codes(const uint8_t* codes, int bits, int64_t count, std::byte* words) {
  auto* bytes = reinterpret_cast<uint8_t*>(words);
  std::memset(bytes, 0, static_cast<size_t>(count * bits / 8));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bit = i * bits;
    const uint32_t window = static_cast<uint32_t>(codes[i]) << (bit % 8);
    bytes[bit / 8] |= static_cast<uint8_t>(window);
    if (window > 0xff) bytes[bit / 8 + 1] |= static_cast<uint8_t>(window >> 8);
  }
}

RowReader::RowReader(const Matrix& matrix) : matrix_(matrix) {
  if (!matrix.present()) return;
  constexpr size_t kWhole = 16;  // a source may round a piece up to whole words at both ends
  const auto cols = static_cast<size_t>(matrix.cols);
  weight_scratch_.reserve(cols * static_cast<size_t>(matrix.bits) / 8 + kWhole);
  if (matrix.encoding != Encoding::kAffine) return;
  const size_t groups = cols / static_cast<size_t>(matrix.group);
  codes_.resize(cols);
  scales_.resize(groups);
  biases_.resize(groups);
  scale_scratch_.reserve(groups * size_of(matrix.scales->dtype()) + kWhole);
  bias_scratch_.reserve(groups * size_of(matrix.biases->dtype()) + kWhole);
}

void RowReader::floats(int64_t row, float* out) {
  if (matrix_.encoding == Encoding::kFloat) {
    widen(stored(row), matrix_.weight->dtype(), matrix_.cols, out);
    return;
  }
  codes(row, codes_.data(), scales_.data(), biases_.data());
  const uint8_t* from = codes_.data();
  const int64_t group = matrix_.group;
  for (size_t g = 0; g < scales_.size(); ++g, from += group, out += group) {
    const float scale = scales_[g], bias = biases_[g];
    for (int64_t c = 0; c < group; ++c) out[c] = static_cast<float>(from[c]) * scale + bias;
  }
}

const std::byte* RowReader::stored(int64_t row) {
  const size_t row_bytes = static_cast<size_t>(matrix_.cols) * size_of(matrix_.weight->dtype());
  return matrix_.weight->read(static_cast<size_t>(matrix_.stored_row(row)) * row_bytes, row_bytes,
                              weight_scratch_);
}

void RowReader::codes(int64_t row, uint8_t* codes, float* scales, float* biases) {
  const auto source = static_cast<size_t>(matrix_.stored_row(row));
  const size_t row_bytes = static_cast<size_t>(matrix_.cols * matrix_.bits / 8);
  unpack_codes(matrix_.weight->read(source * row_bytes, row_bytes, weight_scratch_), matrix_.bits,
               matrix_.cols, codes);
  const int64_t groups = matrix_.cols / matrix_.group;
  const size_t scale_bytes = static_cast<size_t>(groups) * size_of(matrix_.scales->dtype());
  widen(matrix_.scales->read(source * scale_bytes, scale_bytes, scale_scratch_), matrix_.scales->dtype(),
        groups, scales);
  const size_t bias_bytes = static_cast<size_t>(groups) * size_of(matrix_.biases->dtype());
  widen(matrix_.biases->read(source * bias_bytes, bias_bytes, bias_scratch_), matrix_.biases->dtype(), groups,
        biases);
}

void RowReader::drop(int64_t begin, int64_t end) {
  if (begin >= end || matrix_.order != nullptr) return;
  const auto first = static_cast<size_t>(matrix_.stored_row(begin));
  const auto last = static_cast<size_t>(matrix_.stored_row(end - 1)) + 1;
  for (const StoredTensor* part : {matrix_.weight, matrix_.scales, matrix_.biases}) {
    if (part == nullptr) continue;
    const size_t row_bytes = part->bytes() / static_cast<size_t>(part->elements() / part->shape().back());
    part->drop(first * row_bytes, (last - first) * row_bytes);
  }
}

}  // namespace slip::tensor
