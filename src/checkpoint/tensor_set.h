// TensorSet: the tensors of one checkpoint by name, whether they come from files or are made up.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "tensor/stored_tensor.h"

namespace slip::checkpoint {

class TensorSet {
 public:
  /// Replaces nothing: returns false when the name is already there.
  bool add(std::unique_ptr<tensor::StoredTensor> tensor) {
    const std::string name = tensor->name();
    return tensors_.emplace(name, std::move(tensor)).second;
  }
  const tensor::StoredTensor* find(std::string_view name) const {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? nullptr : at->second.get();
  }
  auto begin() const { return tensors_.begin(); }
  auto end() const { return tensors_.end(); }
  size_t size() const { return tensors_.size(); }

 private:
  std::map<std::string, std::unique_ptr<tensor::StoredTensor>, std::less<>> tensors_;
};

}  // namespace slip::checkpoint
