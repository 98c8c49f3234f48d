#include "tensor/dtype.h"

#include <array>

namespace slip::tensor {

namespace {
struct Entry {
  DType dtype;
  std::string_view name;
  size_t size;
};
// In the order of the enum, so that a lookup is an index.
constexpr std::array<Entry, 13> kTypes{{{DType::kF64, "F64", 8},
                                        {DType::kF32, "F32", 4},
                                        {DType::kF16, "F16", 2},
                                        {DType::kBf16, "BF16", 2},
                                        {DType::kI64, "I64", 8},
                                        {DType::kI32, "I32", 4},
                                        {DType::kI16, "I16", 2},
                                        {DType::kI8, "I8", 1},
                                        {DType::kU64, "U64", 8},
                                        {DType::kU32, "U32", 4},
                                        {DType::kU16, "U16", 2},
                                        {DType::kU8, "U8", 1},
                                        {DType::kBool, "BOOL", 1}}};
}  // namespace

size_t size_of(DType dtype) {
  return kTypes[static_cast<size_t>(dtype)].size;
}
std::string_view name_of(DType dtype) {
  return kTypes[static_cast<size_t>(dtype)].name;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const auto& entry : kTypes) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace slip::tensor
