#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace slip::tensor {
namespace {

TEST(DType, every_name_reads_back_and_has_its_size) {
  const std::map<std::string, size_t> sizes{{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                            {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U64", 8},  {"U32", 4},
                                            {"U16", 2}, {"U8", 1},  {"BOOL", 1}};
  for (const auto& [name, size] : sizes) {
    const auto dtype = parse_dtype(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(name_of(*dtype), name);
    EXPECT_EQ(size_of(*dtype), size) << name;
    EXPECT_EQ(is_float_storage(*dtype), name == "F32" || name == "F16" || name == "BF16") << name;
  }
}

TEST(DType, other_names_are_not_known) {
  for (const char* name : {"", "F8_E4M3", "bf16", "F32 ", "INT4"})
    EXPECT_FALSE(parse_dtype(name).has_value()) << name;
}

}  // namespace
}  // namespace slip::tensor
