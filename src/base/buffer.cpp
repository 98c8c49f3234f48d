#include "base/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "base/error.h"

namespace slip {

namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}

Buffer::Buffer(size_t bytes, const char* what) : size_(bytes) {
  if (bytes == 0) return;
  const bool large = bytes >= kHugePage;
  const size_t slack = large ? kHugePage : 0;
  if (bytes > SIZE_MAX - slack) fail(ErrorKind::kOutOfMemory, "{} of {} bytes is too large", what, bytes);
  mapped_ = bytes + slack;
  void* mapping =
      ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    fail(ErrorKind::kOutOfMemory,
         "cannot reserve {:.2f} GiB for {}: use a smaller model, fewer bits or a shorter context",
         static_cast<double>(bytes) / (1 << 30), what);
  }
  mapping_ = mapping;
  auto address = reinterpret_cast<uintptr_t>(mapping);
  if (large) {
    address = (address + kHugePage - 1) & ~(kHugePage - 1);
    ::madvise(reinterpret_cast<void*>(address), bytes, MADV_HUGEPAGE);
  }
  data_ = reinterpret_cast<std::byte*>(address);
}

Buffer::~Buffer() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

}  // namespace slip
