// SharedFile: memory with a file descriptor (memfd), for handing bytes to another process. Sealed before it
// is given away: its size is fixed, so that a mapping of it can never lose its pages, and input cannot be
// changed.
#pragma once

#include <cstddef>
#include <span>

#include "media/descriptor.h"
#include "media/kind.h"

namespace slip::media {

class SharedFile {
 public:
  /// A copy of the bytes that nobody can write to.
  static SharedFile holding(Bytes bytes);
  /// Zeroed room that both sides can write to; this side sees it mapped.
  static SharedFile of_size(size_t size);
  ~SharedFile();
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&&) = delete;

  const Descriptor& descriptor() const { return descriptor_; }
  std::byte* data() const { return data_; }  // nullptr for a file of bytes
  size_t size() const { return size_; }

 private:
  explicit SharedFile(size_t size);

  Descriptor descriptor_;
  size_t size_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace slip::media
