// PagePool: global-layer pages for all sequences of a model, taken from slabs and recycled when a sequence
// ends. A page is only backed by memory once it is written. Used from the thread that admits and retires
// sequences.
#pragma once

#include <cstddef>
#include <vector>

#include "base/buffer.h"

namespace slip::kv {

class PagePool {
 public:
  /// `page_bytes` may be 0 (a model without full layers that own KV): pages are then distinct null-sized
  /// tokens.
  explicit PagePool(size_t page_bytes);

  std::byte* take();
  void give_back(std::byte* page) { free_.push_back(page); }
  size_t pages_in_use() const { return slabs_.size() * kPagesPerSlab - free_.size(); }

 private:
  static constexpr size_t kPagesPerSlab = 16;
  size_t page_bytes_;
  std::vector<Buffer> slabs_;
  std::vector<std::byte*> free_;
};

}  // namespace slip::kv
