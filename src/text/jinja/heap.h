// Heap: the memory and the patience that one rendering, one template or one context may use. Values live in
// blocks that are freed together at the end, so a value is a plain pointer and costs no count of references.
// Whatever works in proportion to its input calls charge(), and recursion holds a Depth.
//
// Exceeding a limit throws a Failure. Allocating is a bump of a pointer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

namespace slip::text::jinja {

struct Limits {
  size_t bytes = size_t{32} << 20;
  uint64_t steps = 3'000'000;
  uint32_t depth = 2000;  // expressions, statements and calls inside each other
};

class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  void* allocate(size_t bytes) {
    bytes = (bytes + 7) & ~size_t{7};
    if (bytes > left_) return allocate_slowly(bytes);
    char* at = next_;
    next_ += bytes;
    left_ -= bytes;
    return at;
  }
  /// Nothing in a heap is ever destroyed.
  template <typename T>
  T* make() {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T))) T();
  }
  /// Not initialised.
  template <typename T>
  T* array(size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T>);
    if (count > limits_.bytes) refuse_memory();
    return static_cast<T*>(allocate(count * sizeof(T)));
  }
  template <typename T>
  T* copy(const T* from, size_t count) {
    T* to = array<T>(count);
    if (count > 0) std::memcpy(static_cast<void*>(to), from, count * sizeof(T));
    return to;
  }
  std::string_view copy(std::string_view text) { return {copy(text.data(), text.size()), text.size()}; }

  /// `work` is what a step of the interpreter costs, or that of some 32 bytes.
  void charge(uint64_t work = 1) {
    steps_ += work;
    if (steps_ > limits_.steps) refuse_steps();
  }
  void charge_bytes(size_t bytes) { charge(bytes / 32 + 1); }
  uint64_t steps() const { return steps_; }
  size_t used() const { return used_; }

 private:
  friend class Depth;
  void* allocate_slowly(size_t bytes);
  [[noreturn]] void refuse_memory() const;
  [[noreturn]] void refuse_steps() const;
  [[noreturn]] void refuse_depth() const;

  Limits limits_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  size_t left_ = 0;
  size_t used_ = 0;
  size_t block_ = size_t{8} << 10;
  uint64_t steps_ = 0;
  uint32_t depth_ = 0;
};

/// Held while a function that may recurse runs.
class Depth {
 public:
  explicit Depth(Heap& heap) : heap_(heap) {
    if (++heap_.depth_ > heap_.limits_.depth) {
      --heap_.depth_;
      heap_.refuse_depth();
    }
  }
  ~Depth() { --heap_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Heap& heap_;
};

/// A growing array in a heap; what it outgrows stays there until the end.
template <typename T>
class Growing {
 public:
  explicit Growing(Heap& heap) : heap_(heap) {}
  void push(const T& item) {
    if (size_ == capacity_) grow(size_ + 1);
    new (items_ + size_++) T(item);
  }
  void reserve(size_t count) {
    if (count > capacity_) grow(count);
  }
  T* data() const { return items_; }
  uint32_t size() const { return size_; }
  T& operator[](size_t i) const { return items_[i]; }
  T& back() const { return items_[size_ - 1]; }
  T* begin() const { return items_; }
  T* end() const { return items_ + size_; }

 private:
  void grow(size_t least) {
    capacity_ = static_cast<uint32_t>(std::max<size_t>({least, size_t{capacity_} * 2, 4}));
    T* larger = heap_.array<T>(capacity_);
    if (size_ > 0) std::memcpy(static_cast<void*>(larger), items_, size_ * sizeof(T));
    items_ = larger;
  }

  Heap& heap_;
  T* items_ = nullptr;
  uint32_t size_ = 0;
  uint32_t capacity_ = 0;
};

}  // namespace slip::text::jinja
