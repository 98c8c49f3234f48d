// MemoryTensor: a stored tensor in memory of its own, for weights that are made while loading. It is filled
// through data() before anyone reads it; readers get its own bytes, without a copy.
#pragma once

#include "base/buffer.h"
#include "tensor/stored_tensor.h"

namespace slip::tensor {

class MemoryTensor final : public StoredTensor {
 public:
  /// All zero at first.
  MemoryTensor(std::string name, DType dtype, std::vector<int64_t> shape)
      : StoredTensor(std::move(name), dtype, std::move(shape)), buffer_(bytes(), "a quantised matrix") {}

  std::byte* data() { return buffer_.data(); }
  const std::byte* read(size_t offset, size_t, std::vector<std::byte>&) const override {
    return buffer_.data() + offset;
  }

 private:
  Buffer buffer_;
};

}  // namespace slip::tensor
