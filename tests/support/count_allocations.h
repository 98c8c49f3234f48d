// Replaces operator new for a whole test executable and counts its calls. Include it in one file per
// executable.
#pragma once

#include <atomic>
#include <cstdlib>
#include <new>

namespace slip::test {
inline std::atomic<long> allocations{0};
}

// Not inlined: GCC would otherwise warn that free() does not match the new it sees.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++slip::test::allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void* operator new(size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
