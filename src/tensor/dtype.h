// Element types a checkpoint may store. Arithmetic is always float; these are storage only.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace slip::tensor {

enum class DType { kF64, kF32, kF16, kBf16, kI64, kI32, kI16, kI8, kU64, kU32, kU16, kU8, kBool };

size_t size_of(DType dtype);
/// The spelling of safetensors: "BF16", "U32".
std::string_view name_of(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

constexpr bool is_float_storage(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
}

}  // namespace slip::tensor
