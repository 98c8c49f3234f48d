#include "checkpoint/tensor_binder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "checkpoint/safetensors.h"

namespace slip::checkpoint {

using tensor::DType;
using tensor::Matrix;
using tensor::StoredTensor;

namespace {

/// The keys of a tally, the one with most values first.
template <typename Key>
std::vector<Key> by_weight(const std::map<Key, int64_t>& tally) {
  std::vector<std::pair<int64_t, Key>> order;
  for (const auto& [key, values] : tally) order.emplace_back(-values, key);
  std::sort(order.begin(), order.end());
  std::vector<Key> keys;
  for (const auto& [values, key] : order) keys.push_back(key);
  return keys;
}

std::vector<int64_t> stored_shape(const MatrixShape& shape, int64_t stored_cols) {
  if (shape.stack == 0) return {shape.rows, stored_cols};
  return {shape.stack, shape.rows, stored_cols};
}

void list_once(std::vector<std::string>& words, std::string word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(std::move(word));
}

}  // namespace

std::string TensorBinder::origin(const StoredTensor& tensor) const {
  const std::string* file = file_of(tensor);
  return file == nullptr ? where_ : *file;
}

const StoredTensor& TensorBinder::claim(const std::string& name) {
  const StoredTensor* found = tensors_.find(name);
  if (found == nullptr) fail_file("{}: tensor {} is missing", where_, in_quotes(name));
  used_.insert(found->name());
  return *found;
}

void TensorBinder::check_shape(const StoredTensor& tensor, const std::vector<int64_t>& expected) const {
  if (tensor.shape() == expected) return;
  fail_file("{}: tensor {} has the shape {}, but config.json asks for {}", origin(tensor),
            in_quotes(tensor.name()), tensor::shape_text(tensor.shape()), tensor::shape_text(expected));
}

void TensorBinder::check_float(const StoredTensor& tensor) const {
  if (tensor::is_float_storage(tensor.dtype())) return;
  fail_file("{}: tensor {} is {}, but must be BF16, F16 or F32{}", origin(tensor), in_quotes(tensor.name()),
            tensor::name_of(tensor.dtype()),
            tensor.dtype() == DType::kU32 ? "; it looks packed, but its scales are missing" : "");
}

Matrix TensorBinder::matrix(const std::string& name, const MatrixShape& shape) {
  Matrix matrix;
  matrix.rows = std::max<int64_t>(shape.stack, 1) * shape.rows;
  matrix.cols = shape.cols;
  const bool plain = !has(name + ".weight") && has(name);
  const StoredTensor& weight = claim(plain ? name : name + ".weight");
  matrix.name = weight.name();
  matrix.weight = &weight;
  if (has(name + ".scales") || has(name + ".biases")) {
    bind_affine(name, shape, matrix);
    affine_values_[{matrix.bits, matrix.group}] += matrix.rows * matrix.cols;
    return matrix;
  }
  check_float(weight);
  check_shape(weight, stored_shape(shape, shape.cols));
  matrix.bits = static_cast<int>(8 * tensor::size_of(weight.dtype()));
  float_values_[weight.dtype()] += matrix.rows * matrix.cols;
  return matrix;
}

void TensorBinder::bind_affine(const std::string& name, const MatrixShape& shape, Matrix& matrix) {
  const ModuleQuantization& said = quantization_.of(name);
  if (said.mode != "affine" || !has(name + ".biases")) {
    fail_file("{}: module {} is quantised in {}, but slipstream reads MLX's affine mode only",
              origin(*matrix.weight), in_quotes(name),
              said.mode != "affine" ? "mode " + in_quotes(said.mode)
                                    : "a mode without biases (such as mxfp4 or nvfp4)");
  }
  const StoredTensor& weight = *matrix.weight;
  if (weight.dtype() != DType::kU32) {
    fail_file("{}: tensor {} has scales, so it must be packed into U32, but it is {}", origin(weight),
              in_quotes(weight.name()), tensor::name_of(weight.dtype()));
  }
  const StoredTensor& scales = claim(name + ".scales");
  const StoredTensor& biases = claim(name + ".biases");
  // The last extents give bits and group, so only those before them can be compared with the Config.
  for (const StoredTensor* part : {&weight, &scales}) {
    check_shape(*part, stored_shape(shape, part->shape().empty() ? 0 : part->shape().back()));
  }
  check_shape(biases, scales.shape());
  check_float(scales);
  check_float(biases);
  const Packing packing = infer_packing(weight, scales, shape.cols, said, origin(weight));
  matrix.encoding = tensor::Encoding::kAffine;
  matrix.bits = packing.bits;
  matrix.group = packing.group;
  matrix.scales = &scales;
  matrix.biases = &biases;
}

std::vector<float> TensorBinder::vector(const std::string& name, int64_t count) {
  const StoredTensor& tensor = claim(name);
  check_float(tensor);
  check_shape(tensor, {count});
  return tensor::read_vector(tensor);
}

float TensorBinder::scalar(const std::string& name) {
  const StoredTensor& tensor = claim(name);
  check_float(tensor);
  if (!tensor.shape().empty()) check_shape(tensor, {1});
  return tensor::read_vector(tensor).front();
}

std::vector<int32_t> TensorBinder::permutation(const std::string& name, int64_t count) {
  const StoredTensor& tensor = claim(name);
  if (tensor.dtype() != DType::kI64 && tensor.dtype() != DType::kI32) {
    fail_file("{}: tensor {} is {}, but token ids must be I64 or I32", origin(tensor), in_quotes(name),
              tensor::name_of(tensor.dtype()));
  }
  check_shape(tensor, {count});
  std::vector<std::byte> scratch;
  const std::byte* bytes = tensor.read(0, tensor.bytes(), scratch);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::vector<bool> seen(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    int64_t id = 0;
    if (tensor.dtype() == DType::kI64) {
      std::memcpy(&id, bytes + i * sizeof(int64_t), sizeof(int64_t));
    } else {
      int32_t narrow = 0;
      std::memcpy(&narrow, bytes + i * sizeof(narrow), sizeof(narrow));
      id = narrow;
    }
    if (id < 0 || id >= count) {
      fail_file("{}: tensor {} has the token id {} at {}, outside the vocabulary of {}", origin(tensor),
                in_quotes(name), id, i, count);
    }
    if (seen[static_cast<size_t>(id)]) {
      fail_file("{}: tensor {} has the token id {} twice", origin(tensor), in_quotes(name), id);
    }
    seen[static_cast<size_t>(id)] = true;
    ids[i] = static_cast<int32_t>(id);
  }
  return ids;
}

std::vector<NotLoaded> TensorBinder::leftovers(
    const std::function<std::optional<Leftover>(std::string_view)>& explain) const {
  std::map<std::string_view, NotLoaded> groups;
  for (const auto& [name, tensor] : tensors_) {
    if (used(name)) continue;
    const auto known = explain(name);
    if (!known) {
      fail_file("{}: tensor {} of shape {} has no place in the model that config.json describes",
                origin(*tensor), in_quotes(name), tensor::shape_text(tensor->shape()));
    }
    NotLoaded& group = groups[known->group];
    group.group = known->group;
    group.reason = known->reason;
    ++group.tensors;
    group.bytes += tensor->bytes();
  }
  std::vector<NotLoaded> list;
  for (auto& [name, group] : groups) list.push_back(std::move(group));
  return list;
}

std::string TensorBinder::encoding_text() const {
  std::vector<std::string> words, groups;
  if (affine_values_.empty()) {
    for (const DType dtype : by_weight(float_values_)) {
      list_once(words, dtype == DType::kF32 ? "f32" : dtype == DType::kF16 ? "f16" : "bf16");
    }
    return fmt::format("{}", fmt::join(words, " and "));
  }
  for (const auto& [bits, group] : by_weight(affine_values_)) {
    list_once(words, fmt::format("{}-bit", bits));
    list_once(groups, fmt::format("{}", group));
  }
  return fmt::format("affine {}, group {}", fmt::join(words, " and "), fmt::join(groups, " and "));
}

}  // namespace slip::checkpoint
