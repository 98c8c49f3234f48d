#include "tensor/matrix.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/float16.h"
#include "base/noise.h"

namespace slip::tensor {
namespace {

/// A tensor in memory that remembers what was dropped, and hands its bytes out unaligned and through the
/// scratch.
class MemoryTensor : public StoredTensor {
 public:
  MemoryTensor(std::string name, DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes)
      : StoredTensor(std::move(name), dtype, std::move(shape)), bytes_(std::move(bytes)) {}

  const std::byte* read(size_t offset, size_t count, std::vector<std::byte>& scratch) const override {
    scratch.resize(count + 1);
    std::memcpy(scratch.data() + 1, bytes_.data() + offset, count);
    EXPECT_LE(offset + count, bytes_.size());
    return scratch.data() + 1;
  }
  void drop(size_t offset, size_t count) const override { dropped.emplace_back(offset, count); }

  mutable std::vector<std::pair<size_t, size_t>> dropped;

 private:
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> bf16_bytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = to_bf16(values[i]).bits;
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  return bytes;
}

/// 0, 1, 2 ...: exact in bf16 up to 256.
std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

uint8_t code_at(int64_t index, int bits) {
  return static_cast<uint8_t>(keyed_bits(77, static_cast<uint64_t>(index)) >> (64 - bits));
}

TEST(Codes, element_0_is_in_the_lowest_bits_and_codes_run_on_without_gaps) {
  for (const int bits : {3, 4, 5, 6, 8}) {
    constexpr int64_t kCount = 96;
    std::vector<uint8_t> codes(kCount);
    for (int64_t i = 0; i < kCount; ++i) codes[static_cast<size_t>(i)] = code_at(i, bits);
    std::vector<std::byte> words(static_cast<size_t>(kCount * bits / 8), std::byte{0xee});
    pack_codes(codes.data(), bits, kCount, words.data());
    for (int64_t bit = 0; bit < kCount * bits; ++bit) {
      const int expected = codes[static_cast<size_t>(bit / bits)] >> (bit % bits) & 1;
      const int found = static_cast<int>(words[static_cast<size_t>(bit / 8)]) >> (bit % 8) & 1;
      ASSERT_EQ(found, expected) << bits << " bits, bit " << bit;
    }
  }
}

TEST(Codes, unpacking_undoes_packing_at_every_width) {
  for (const int bits : {3, 4, 5, 6, 8}) {
    for (const int64_t count : {32, 64, 160, 4096}) {
      std::vector<uint8_t> codes(static_cast<size_t>(count)), back(codes.size(), 0xaa);
      for (int64_t i = 0; i < count; ++i) codes[static_cast<size_t>(i)] = code_at(i, bits);
      // Exactly as long as it must be: a read past the end would show under ASan.
      std::vector<std::byte> words(static_cast<size_t>(count * bits / 8));
      pack_codes(codes.data(), bits, count, words.data());
      unpack_codes(words.data(), bits, count, back.data());
      EXPECT_EQ(back, codes) << bits << " bits";
    }
  }
}

TEST(Matrix, rows_are_identical_unless_two_matrices_share_a_tensor) {
  Matrix plain;
  EXPECT_EQ(plain.stored_row(0), 0);
  EXPECT_EQ(plain.stored_row(12345), 12345);
  Matrix up;  // 3 rows of gate, then 3 of up, per expert
  up.block = 3;
  up.stride = 6;
  up.offset = 3;
  std::vector<int64_t> rows;
  for (int64_t r = 0; r < 7; ++r) rows.push_back(up.stored_row(r));
  EXPECT_EQ(rows, (std::vector<int64_t>{3, 4, 5, 9, 10, 11, 15}));
}

TEST(RowReader, float_rows_are_read_through_the_row_map) {
  const MemoryTensor stored("w", DType::kBf16, {2, 4, 5}, bf16_bytes(counting(40)));
  Matrix matrix;
  matrix.rows = 4;
  matrix.cols = 5;
  matrix.weight = &stored;
  matrix.block = 2;
  matrix.stride = 4;
  matrix.offset = 2;
  RowReader reader(matrix);
  std::vector<float> row(5);
  reader.floats(0, row.data());
  EXPECT_EQ(row, (std::vector<float>{10, 11, 12, 13, 14}));
  reader.floats(3, row.data());
  EXPECT_EQ(row, (std::vector<float>{35, 36, 37, 38, 39}));
  uint16_t first;
  std::memcpy(&first, reader.stored(3), 2);
  EXPECT_EQ(to_float(Bf16{first}), 35.0f);
}

TEST(RowReader, affine_rows_are_code_times_scale_plus_bias) {
  for (const int bits : {3, 4, 5, 6, 8}) {
    constexpr int64_t kRows = 3, kCols = 64, kGroup = 32;
    std::vector<uint8_t> codes(kRows * kCols);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = code_at(static_cast<int64_t>(i), bits);
    std::vector<std::byte> words(static_cast<size_t>(kRows * kCols * bits / 8));
    pack_codes(codes.data(), bits, kRows * kCols, words.data());
    const MemoryTensor weight("w", DType::kU32, {kRows, kCols * bits / 32}, words);
    const MemoryTensor scales("s", DType::kBf16, {kRows, 2}, bf16_bytes({1, 2, 3, 4, 5, 6}));
    const MemoryTensor biases("b", DType::kBf16, {kRows, 2}, bf16_bytes({-1, -2, -3, -4, -5, -6}));
    Matrix matrix;
    matrix.rows = kRows;
    matrix.cols = kCols;
    matrix.encoding = Encoding::kAffine;
    matrix.bits = bits;
    matrix.group = kGroup;
    matrix.weight = &weight;
    matrix.scales = &scales;
    matrix.biases = &biases;
    RowReader reader(matrix);
    std::vector<float> row(kCols);
    for (int64_t r = 0; r < kRows; ++r) {
      reader.floats(r, row.data());
      for (int64_t c = 0; c < kCols; ++c) {
        const float scale = static_cast<float>(2 * r + c / kGroup + 1);
        ASSERT_EQ(row[static_cast<size_t>(c)],
                  static_cast<float>(codes[static_cast<size_t>(r * kCols + c)]) * scale - scale);
      }
    }
  }
}

TEST(RowReader, dropping_rows_drops_their_bytes_in_every_part) {
  const MemoryTensor weight("w", DType::kU32, {8, 16}, std::vector<std::byte>(8 * 64));
  const MemoryTensor scales("s", DType::kBf16, {8, 2}, std::vector<std::byte>(8 * 4));
  const MemoryTensor biases("b", DType::kF32, {8, 2}, std::vector<std::byte>(8 * 8));
  Matrix matrix;
  matrix.rows = 8;
  matrix.cols = 128;
  matrix.encoding = Encoding::kAffine;
  matrix.bits = 4;
  matrix.group = 64;
  matrix.weight = &weight;
  matrix.scales = &scales;
  matrix.biases = &biases;
  RowReader reader(matrix);
  reader.drop(2, 5);
  reader.drop(5, 5);
  using Ranges = std::vector<std::pair<size_t, size_t>>;
  EXPECT_EQ(weight.dropped, (Ranges{{2 * 64, 3 * 64}}));
  EXPECT_EQ(scales.dropped, (Ranges{{2 * 4, 3 * 4}}));
  EXPECT_EQ(biases.dropped, (Ranges{{2 * 8, 3 * 8}}));
}

TEST(Widen, every_float_type_gives_its_value) {
  const uint16_t half = 0x3c00, bf16 = 0xc000;
  const float single = 0.1f;
  float value = 0;
  widen(reinterpret_cast<const std::byte*>(&half), DType::kF16, 1, &value);
  EXPECT_EQ(value, 1.0f);
  widen(reinterpret_cast<const std::byte*>(&bf16), DType::kBf16, 1, &value);
  EXPECT_EQ(value, -2.0f);
  widen(reinterpret_cast<const std::byte*>(&single), DType::kF32, 1, &value);
  EXPECT_EQ(value, 0.1f);
}

TEST(ReadVector, a_small_tensor_is_read_whole) {
  const MemoryTensor tensor("v", DType::kBf16, {3, 2}, bf16_bytes(counting(6)));
  EXPECT_EQ(read_vector(tensor), counting(6));
  EXPECT_EQ(tensor.elements(), 6);
  EXPECT_EQ(tensor.bytes(), 12u);
}

TEST(StoredTensor, shapes_print_as_people_write_them) {
  EXPECT_EQ(shape_text({262144, 1536}), "[262144, 1536]");
  EXPECT_EQ(shape_text({7}), "[7]");
  EXPECT_EQ(shape_text({}), "[]");
}

}  // namespace
}  // namespace slip::tensor
