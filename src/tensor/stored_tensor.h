// A tensor where it is stored: bytes that can be read in pieces. A mapped file hands out its own memory, a
// synthetic tensor makes the bytes up in the caller's scratch. Readers go through a matrix in slabs of rows,
// so a model is packed without its source ever being in memory whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace slip::tensor {

class StoredTensor {
 public:
  StoredTensor(std::string name, DType dtype, std::vector<int64_t> shape)
      : name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)) {}
  virtual ~StoredTensor() = default;
  StoredTensor(const StoredTensor&) = delete;
  StoredTensor& operator=(const StoredTensor&) = delete;

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t elements() const;
  size_t bytes() const { return static_cast<size_t>(elements()) * size_of(dtype_); }

  /// Bytes [offset, offset + count). The result lives in the file's mapping, or in `scratch` (resized to
  /// fit), until the next read with that scratch. Little-endian, not necessarily aligned. Safe from several
  /// threads at once with a scratch each.
  virtual const std::byte* read(size_t offset, size_t count, std::vector<std::byte>& scratch) const = 0;

  /// These bytes will not be read again soon.
  virtual void drop(size_t /*offset*/, size_t /*count*/) const {}

 private:
  std::string name_;
  DType dtype_;
  std::vector<int64_t> shape_;
};

/// "[262144, 1536]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace slip::tensor
