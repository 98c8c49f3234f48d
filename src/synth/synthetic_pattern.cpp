#include "synth/synthetic_pattern.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/float16.h"
#include "tensor/matrix.h"

namespace slip::synth {

namespace {

constexpr int kWidest = 8;  // bits of a code

int zero_code(int bits) {
  return 1 << (bits - 1);
}

}  // namespace

float code_scale(int bits, double unit) {
  return round_to_bf16(static_cast<float>(unit / (zero_code(bits) - 1)));
}

float code_bias(int bits, double unit) {
  return -static_cast<float>(zero_code(bits)) * code_scale(bits, unit);  // a power of two times the scale
}

PatternTensor::PatternTensor(const std::string& name, std::vector<int64_t> shape, PatternFormat format)
    : StoredTensor(name, format.bits == 16 ? tensor::DType::kBf16 : tensor::DType::kU32, std::move(shape)),
      format_(std::move(format)),
      row_bytes_(static_cast<size_t>(format_.cols * format_.bits / 8)) {
  SLIP_CHECK(format_.pattern != nullptr && (format_.bits == 16 || format_.bits <= kWidest));
  SLIP_CHECK(bytes() == static_cast<size_t>(this->shape().front()) * row_bytes_);
}

void PatternTensor::encode(std::span<const float> values, std::byte* out) const {
  if (format_.bits == 16) {
    const auto unit = static_cast<float>(format_.unit);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t bits = to_bf16(values[i] * unit).bits;
      std::memcpy(out + 2 * i, &bits, sizeof(bits));
    }
    return;
  }
  // Codes go through a piece of 32, which is whole words at every width.
  constexpr size_t kPiece = 32;
  uint8_t codes[kPiece];
  const int zero = zero_code(format_.bits);
  const auto steps = static_cast<float>(zero - 1), middle = static_cast<float>(zero) + 0.5f;
  for (size_t at = 0; at < values.size(); at += kPiece) {
    const size_t count = std::min(kPiece, values.size() - at);
    for (size_t i = 0; i < count; ++i) codes[i] = static_cast<uint8_t>(values[at + i] * steps + middle);
    tensor::pack_codes(codes, format_.bits, static_cast<int64_t>(count),
                       out + at * static_cast<size_t>(format_.bits) / 8);
  }
}

const std::byte* PatternTensor::read(size_t offset, size_t count, std::vector<std::byte>& scratch) const {
  SLIP_CHECK(offset <= bytes() && count <= bytes() - offset);
  const size_t first = offset / row_bytes_;
  const size_t rows = (offset % row_bytes_ + count + row_bytes_ - 1) / row_bytes_;
  // The row of floats stands behind the encoded rows, at an aligned place.
  const size_t floats_at = (rows * row_bytes_ + 63) & ~size_t{63};
  const auto cols = static_cast<size_t>(format_.cols);
  if (scratch.size() < floats_at + cols * sizeof(float)) scratch.resize(floats_at + cols * sizeof(float));
  const std::span<float> values(reinterpret_cast<float*>(scratch.data() + floats_at), cols);
  for (size_t r = 0; r < rows; ++r) {
    format_.pattern->row(static_cast<int64_t>(first + r), values);
    encode(values, scratch.data() + r * row_bytes_);
  }
  return scratch.data() + offset % row_bytes_;
}

IdTensor::IdTensor(const std::string& name, tensor::DType dtype,
                   std::shared_ptr<const std::vector<int32_t>> ids)
    : StoredTensor(name, dtype, {static_cast<int64_t>(ids->size())}), ids_(std::move(ids)) {
  SLIP_CHECK(dtype == tensor::DType::kI64 || dtype == tensor::DType::kI32);
}

const std::byte* IdTensor::read(size_t offset, size_t count, std::vector<std::byte>& scratch) const {
  SLIP_CHECK(offset <= bytes() && count <= bytes() - offset);
  if (dtype() == tensor::DType::kI32) return reinterpret_cast<const std::byte*>(ids_->data()) + offset;
  const size_t first = offset / 8, words = (offset % 8 + count + 7) / 8;
  if (scratch.size() < words * 8) scratch.resize(words * 8);
  for (size_t i = 0; i < words; ++i) {
    const int64_t id = (*ids_)[first + i];
    std::memcpy(scratch.data() + 8 * i, &id, sizeof(id));
  }
  return scratch.data() + offset % 8;
}

}  // namespace slip::synth
