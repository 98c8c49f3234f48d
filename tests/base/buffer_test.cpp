#include "base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "base/error.h"

namespace slip {
namespace {

TEST(Buffer, new_memory_is_zero_and_aligned) {
  for (const size_t bytes : {size_t{1}, size_t{4097}, size_t{3} << 20}) {
    const Buffer buffer(bytes);
    ASSERT_EQ(buffer.size(), bytes);
    for (size_t i = 0; i < bytes; i += 511) ASSERT_EQ(buffer.data()[i], std::byte{0});
    ASSERT_EQ(buffer.data()[bytes - 1], std::byte{0});
    const size_t alignment = bytes >= size_t{2} << 20 ? size_t{2} << 20 : 4096;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0u);
  }
}

TEST(Buffer, an_empty_buffer_has_no_memory) {
  EXPECT_EQ(Buffer().data(), nullptr);
  EXPECT_EQ(Buffer(0).size(), 0u);
}

TEST(Buffer, moving_hands_the_memory_over) {
  Buffer first(64);
  *first.as<int>(8) = 42;
  Buffer second(std::move(first));
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(first.size(), 0u);
  EXPECT_EQ(*second.as<int>(8), 42);
  Buffer third(128);
  third = std::move(second);
  EXPECT_EQ(third.size(), 64u);
  EXPECT_EQ(*third.as<int>(8), 42);
}

TEST(Buffer, memory_that_cannot_be_had_is_an_error_that_says_for_what) {
  for (const size_t bytes : {size_t{1} << 62, SIZE_MAX}) {
    try {
      const Buffer buffer(bytes, "the moon");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOutOfMemory);
      EXPECT_NE(std::string(error.what()).find("the moon"), std::string::npos);
    }
  }
}

/// A layout that is written once and carved twice.
struct Layout {
  explicit Layout(Carver& carver)
      : a(carver.allocate<char>(3)), b(carver.allocate<double>(5)), c(carver.allocate<char>(1)) {}
  char* a;
  double* b;
  char* c;
};

TEST(Carver, the_first_pass_counts_what_the_second_hands_out) {
  Carver counter;
  const Layout nothing(counter);
  EXPECT_EQ(nothing.b, nullptr);
  EXPECT_EQ(counter.used(), 64u + 64 + 1);
  const Buffer buffer(counter.used());
  Carver carver(buffer.data());
  const Layout layout(carver);
  EXPECT_EQ(carver.used(), counter.used());
  EXPECT_EQ(layout.a, buffer.as<char>());
  EXPECT_EQ(layout.b, buffer.as<double>(64));
  EXPECT_EQ(layout.c, buffer.as<char>(128));
}

}  // namespace
}  // namespace slip
