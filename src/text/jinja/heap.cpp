#include "text/jinja/heap.h"

#include "text/jinja/failure.h"

namespace slip::text::jinja {

void* Heap::allocate_slowly(size_t bytes) {
  // Once blocks are large, what is left of the last one is not worth a search.
  constexpr size_t kLargestBlock = size_t{1} << 20;
  const size_t size = std::max(bytes, block_);
  if (size > limits_.bytes - used_) {
    if (bytes > limits_.bytes - used_) refuse_memory();
  }
  const size_t taken = std::min(size, limits_.bytes - used_);
  blocks_.push_back(std::unique_ptr<char[]>(new char[taken]));
  used_ += taken;
  block_ = std::min(block_ * 2, kLargestBlock);
  char* at = blocks_.back().get();
  if (taken - bytes >= left_) {  // else the block before has more room left
    next_ = at + bytes;
    left_ = taken - bytes;
  }
  return at;
}

void Heap::refuse_memory() const {
  raise(Fault::kMemoryError, "needs more than the {} bytes of memory that it may use", limits_.bytes);
}

void Heap::refuse_steps() const {
  raise(Fault::kOverflowError, "takes more than the {} steps that it may", limits_.steps);
}

void Heap::refuse_depth() const {
  raise(Fault::kRecursionError, "goes more than {} levels deep", limits_.depth);
}

}  // namespace slip::text::jinja
