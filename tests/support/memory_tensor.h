// A StoredTensor in memory, and matrices made from floats, for tests of packing and kernels.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/float16.h"
#include "base/noise.h"
#include "tensor/matrix.h"
#include "tensor/quantise.h"

namespace slip::test {

/// Not tensor::MemoryTensor, whose mapped memory ends at a page: here a sanitizer sees the first byte too
/// far.
class MemoryTensor final : public tensor::StoredTensor {
 public:
  MemoryTensor(std::string name, tensor::DType dtype, std::vector<int64_t> shape)
      : StoredTensor(std::move(name), dtype, std::move(shape)), data_(bytes()) {}
  const std::byte* read(size_t offset, size_t, std::vector<std::byte>&) const override {
    return data_.data() + offset;
  }
  std::byte* data() { return data_.data(); }
  void set(size_t index, float value) {
    if (dtype() == tensor::DType::kF32) {
      std::memcpy(data() + index * 4, &value, 4);
    } else {
      const uint16_t bits = dtype() == tensor::DType::kBf16 ? to_bf16(value).bits : to_f16(value).bits;
      std::memcpy(data() + index * 2, &bits, 2);
    }
  }

 private:
  std::vector<std::byte> data_;
};

/// Uniform in (-1, 1).
inline float noise(uint64_t seed, uint64_t index) {
  return static_cast<float>(2 * keyed_uniform(seed, index) - 1);
}

/// A matrix that owns its storage.
struct OwnedMatrix {
  tensor::Matrix matrix;
  std::unique_ptr<MemoryTensor> weight, scales, biases;
};

inline OwnedMatrix random_float_matrix(tensor::DType dtype, int64_t rows, int64_t cols, uint64_t seed) {
  OwnedMatrix owned;
  owned.weight = std::make_unique<MemoryTensor>("weight", dtype, std::vector<int64_t>{rows, cols});
  for (int64_t i = 0; i < rows * cols; ++i)
    owned.weight->set(static_cast<size_t>(i), noise(seed, static_cast<uint64_t>(i)));
  owned.matrix.name = "weight";
  owned.matrix.rows = rows;
  owned.matrix.cols = cols;
  owned.matrix.bits = static_cast<int>(8 * tensor::size_of(dtype));
  owned.matrix.weight = owned.weight.get();
  return owned;
}

inline OwnedMatrix random_affine_matrix(int bits, int group, tensor::DType scale_type, int64_t rows,
                                        int64_t cols, uint64_t seed) {
  using tensor::DType;
  OwnedMatrix owned;
  owned.weight =
      std::make_unique<MemoryTensor>("weight", DType::kU32, std::vector<int64_t>{rows, cols * bits / 32});
  owned.scales =
      std::make_unique<MemoryTensor>("scales", scale_type, std::vector<int64_t>{rows, cols / group});
  owned.biases =
      std::make_unique<MemoryTensor>("biases", scale_type, std::vector<int64_t>{rows, cols / group});
  std::vector<uint8_t> codes(static_cast<size_t>(cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      codes[static_cast<size_t>(c)] =
          static_cast<uint8_t>(keyed_bits(seed, static_cast<uint64_t>(r * cols + c)) % (1u << bits));
    }
    tensor::pack_codes(codes.data(), bits, cols, owned.weight->data() + r * cols * bits / 8);
    for (int64_t g = 0; g < cols / group; ++g) {
      const auto at = static_cast<size_t>(r * (cols / group) + g);
      const float scale = (1.5f + noise(seed + 1, at)) / static_cast<float>(1 << bits);
      owned.scales->set(at, scale);
      owned.biases->set(at, -scale * static_cast<float>((1 << bits) / 2) + 0.01f * noise(seed + 2, at));
    }
  }
  owned.matrix.name = "weight";
  owned.matrix.rows = rows;
  owned.matrix.cols = cols;
  owned.matrix.encoding = tensor::Encoding::kAffine;
  owned.matrix.bits = bits;
  owned.matrix.group = group;
  owned.matrix.weight = owned.weight.get();
  owned.matrix.scales = owned.scales.get();
  owned.matrix.biases = owned.biases.get();
  return owned;
}

}  // namespace slip::test
