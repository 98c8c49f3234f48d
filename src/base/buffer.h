// Buffer: owned, zeroed memory for weights, caches and activations. It comes straight from the kernel,
// aligned to 2 MiB with huge pages requested when it is large (weight streams lose up to a quarter of the
// bandwidth to page walks otherwise), and is only backed by real memory where it has been touched. Movable,
// never copied.
#pragma once

#include <cstddef>
#include <span>

namespace slip {

class Buffer {
 public:
  Buffer() = default;
  /// Throws Error(kOutOfMemory) naming `what` when the address space is refused.
  explicit Buffer(size_t bytes, const char* what = "a buffer");
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <typename T>
  T* as(size_t byte_offset = 0) const {
    return reinterpret_cast<T*>(data_ + byte_offset);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
};

/// Hands out aligned pieces of one Buffer. Used twice: a first pass with no buffer counts the bytes, the
/// second gives addresses, so that a plan and its layout are written once.
class Carver {
 public:
  explicit Carver(std::byte* base = nullptr) : base_(base) {}
  template <typename T>
  T* allocate(size_t count) {
    used_ = (used_ + 63) & ~size_t{63};
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += count * sizeof(T);
    return piece;
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

}  // namespace slip
