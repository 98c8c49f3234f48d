// PagePool: global-layer pages for all sequences of a model, taken from slabs and recycled when a sequence
// ends. A page is only backed by memory once it is written. Used from the thread that admits and retires
// sequences.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace slip::kv {

/// Where caches get their memory: the host's, or that of the device a backend computes on, whose addresses
/// only the backend can read. Throws Error(kOutOfMemory) naming `what`.
using Allocate = std::function<std::shared_ptr<std::byte>(size_t bytes, const char* what)>;
std::shared_ptr<std::byte> host_memory(size_t bytes, const char* what);

class PagePool {
 public:
  /// `page_bytes` may be 0 (a model without full layers that own KV): pages are then distinct null-sized
  /// tokens.
  explicit PagePool(size_t page_bytes, Allocate allocate = host_memory);

  std::byte* allocate_page();
  void free_page(std::byte* page) { free_.push_back(page); }
  const Allocate& allocate() const { return allocate_; }
  size_t pages_in_use() const { return slabs_.size() * kPagesPerSlab - free_.size(); }

 private:
  static constexpr size_t kPagesPerSlab = 16;
  size_t page_bytes_;
  Allocate allocate_;
  std::vector<std::shared_ptr<std::byte>> slabs_;
  std::vector<std::byte*> free_;
};

}  // namespace slip::kv
