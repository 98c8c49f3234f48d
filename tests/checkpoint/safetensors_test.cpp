#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include "checkpoint/files.h"

namespace slip::checkpoint {
namespace {

using test::expect_bad_file;
using test::raw_safetensors;

std::vector<HeaderEntry> parse(const std::string& bytes) {
  return parse_header(std::as_bytes(std::span(bytes)), bytes.size(), "weights.safetensors");
}

void expect_bad(const std::string& header, const std::string& data,
                std::initializer_list<std::string> words) {
  SCOPED_TRACE(header);
  expect_bad_file([&] { parse(raw_safetensors(header, data)); }, words);
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(Safetensors, a_header_lists_its_tensors_in_the_order_of_their_bytes) {
  const std::string header =
      R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[6,14]},"__metadata__":{"by":"me"},)"
      R"("a":{"shape":[3,1],"data_offsets":[0,6],"dtype":"BF16"},)"
      R"("none":{"dtype":"U8","shape":[0,9],"data_offsets":[6,6]}}    )";
  const auto entries = parse(raw_safetensors(header, std::string(14, 'x')));
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].dtype, tensor::DType::kBf16);
  EXPECT_EQ(entries[0].shape, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(entries[0].begin, 8 + header.size());
  EXPECT_EQ(entries[0].end, 8 + header.size() + 6);
  EXPECT_EQ(entries[1].name, "none");
  EXPECT_EQ(entries[2].name, "b");
  EXPECT_EQ(entries[2].end, 8 + header.size() + 14);
}

TEST(Safetensors, a_scalar_has_an_empty_shape) {
  EXPECT_TRUE(parse(raw_safetensors(entry("F32", "[]", "[0,4]"), "abcd"))[0].shape.empty());
}

TEST(Safetensors, a_file_cut_short_is_refused_wherever_the_cut_is) {
  const std::string whole = raw_safetensors(entry("F32", "[2]", "[0,8]"), "12345678");
  EXPECT_EQ(parse(whole).size(), 1u);
  for (size_t size = 0; size < whole.size(); ++size) {
    SCOPED_TRACE(size);
    expect_bad_file([&] { parse(whole.substr(0, size)); }, {"weights.safetensors"});
  }
  expect_bad_file([&] { parse(whole.substr(0, 5)); }, {"too short"});
  expect_bad_file([&] { parse(whole.substr(0, 20)); }, {"cut short"});
  expect_bad_file([&] { parse(whole.substr(0, whole.size() - 3)); },
                  {"tensor 'w'", "ends at byte 8", "only 5"});
}

TEST(Safetensors, a_header_length_that_cannot_be_is_refused_before_anything_is_read) {
  expect_bad_file([] { parse(std::string(8, '\xff') + "{}"); }, {"18446744073709551615", "only 2 follow"});
  const std::string bytes(16, '\0');
  const std::string huge = std::string("\x00\xca\x9a\x3b\0\0\0\0", 8) + "{}";  // a billion
  expect_bad_file([&] { parse_header(std::as_bytes(std::span(huge)), uint64_t{1} << 40, "f"); },
                  {"cut short"});
  expect_bad_file([&] { parse(bytes); }, {"not valid JSON"});
}

TEST(Safetensors, a_header_that_is_no_json_object_is_refused) {
  expect_bad("{\"w\":", "", {"weights.safetensors", "not valid JSON"});
  expect_bad("{} {}", "", {"not valid JSON"});
  expect_bad("[]", "", {"must be a JSON object", "a list"});
  expect_bad("7", "", {"must be a JSON object"});
  expect_bad(std::string("{\"w\xff\":1}"), "", {"not valid JSON"});
  expect_bad(R"({"w":5})", "", {"'w'", "must be an object", "a number"});
  expect_bad(R"({"w":null})", "", {"'w'", "must be an object"});
  expect_bad(R"({"w":[[[[1]]]]})", "", {"'w'", "must be an object"});
  expect_bad(R"({"__metadata__":{"a":1}})", "", {"__metadata__"});
  expect_bad(R"({"__metadata__":{"a":{"b":{}}}})", "", {"__metadata__"});
  expect_bad(std::string(100000, '['), "", {"must be a JSON object"});
}

TEST(Safetensors, fields_that_are_missing_doubled_or_of_the_wrong_kind_are_refused) {
  expect_bad(R"({"w":{}})", "", {"'w'", "no dtype"});
  expect_bad(R"({"w":{"dtype":"F32","data_offsets":[0,4]}})", "1234", {"'w'", "no shape"});
  expect_bad(R"({"w":{"dtype":"F32","shape":[1]}})", "1234", {"'w'", "two data_offsets"});
  expect_bad(entry("F32", "[1]", "[0]"), "1234", {"'w'", "two data_offsets, found 1"});
  expect_bad(entry("F32", "[1]", "[0,2,4]"), "1234", {"'w'", "more than two"});
  expect_bad(R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234", {"twice"});
  expect_bad(R"({"w":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}})", "1234", {"twice"});
  expect_bad(R"({"w":{"data_offsets":[],"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234",
             {"twice"});
  expect_bad(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"colour":1}})", "1234",
             {"'w'", "'colour'"});
  expect_bad(R"({"w":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", "1234", {"'w'", "a number", "'dtype'"});
  expect_bad(entry("F32", "[1.5]", "[0,4]"), "1234", {"'w'", "not whole", "'shape'"});
  expect_bad(entry("F32", "[\"1\"]", "[0,4]"), "1234", {"'w'", "a string", "'shape'"});
  expect_bad(entry("F32", "[[1]]", "[0,4]"), "1234", {"'w'", "a list", "'shape'"});
  expect_bad(entry("F32", "1", "[0,4]"), "1234", {"'w'", "a number", "'shape'"});
  expect_bad(entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "1234", {"'w'", "more than 8 dimensions"});
}

TEST(Safetensors, a_dtype_that_cannot_be_read_is_named) {
  expect_bad(entry("F8_E4M3", "[4]", "[0,4]"), "1234", {"'w'", "'F8_E4M3'", "BF16"});
  expect_bad(entry("bf16", "[2]", "[0,4]"), "1234", {"'w'", "'bf16'"});
}

TEST(Safetensors, extents_that_are_negative_or_overflow_are_refused) {
  expect_bad(entry("F32", "[-1]", "[0,4]"), "1234", {"'w'", "negative"});
  expect_bad(entry("F32", "[9223372036854775808]", "[0,4]"), "1234", {"'w'", "too large"});
  expect_bad(entry("F32", "[99999999999999999999999]", "[0,4]"), "1234", {"'w'"});
  expect_bad(entry("F32", "[4294967296,4294967296]", "[0,4]"), "1234", {"'w'", "overflows"});
  expect_bad(entry("F32", "[4611686018427387904]", "[0,0]"), "", {"'w'", "overflows"});
  expect_bad(entry("U8", "[4294967296,4294967296,0]", "[0,0]"), "", {"'w'", "overflows"});
}

TEST(Safetensors, a_shape_that_does_not_fill_its_bytes_is_refused) {
  expect_bad(entry("F32", "[2]", "[0,4]"), "1234", {"'w'", "F32 [2]", "needs 8 bytes", "hold 4"});
  expect_bad(entry("U8", "[3]", "[0,4]"), "1234", {"'w'", "needs 3 bytes"});
}

TEST(Safetensors, offsets_reversed_past_the_end_overlapping_or_with_holes_are_refused) {
  expect_bad(entry("F32", "[1]", "[4,0]"), "1234", {"'w'", "reversed"});
  expect_bad(entry("F32", "[1]", "[4,8]"), "1234", {"'w'", "ends at byte 8"});
  expect_bad(entry("F32", "[1]", "[18446744073709551612,18446744073709551615]"), "1234", {"'w'", "ends at"});
  const std::string a = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)";
  expect_bad(a + R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", "123456",
             {"'b'", "overlap", "'a'"});
  expect_bad(a + R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "1234", {"overlap"});
  expect_bad(a + R"("b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})", "123456",
             {"1 bytes before", "'b'"});
  expect_bad(entry("U8", "[4]", "[0,4]"), "123456", {"2 bytes at the end"});
}

TEST(Safetensors, a_name_listed_twice_is_refused) {
  expect_bad(
      R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":)"
      R"([1,2]}})",
      "12", {"tensor 'w'", "listed twice"});
}

TEST(Safetensors, a_hostile_name_is_shown_clipped_and_without_control_characters) {
  const std::string name = "\\u001b[2J" + std::string(5000, 'x');
  try {
    parse(raw_safetensors("{\"" + name + "\":{\"dtype\":\"?\"}}", ""));
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_LT(text.size(), 400u);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
}

TEST(Safetensors, mapped_tensors_read_the_bytes_of_their_file) {
  const test::TempFolder folder;
  const MappedFile file(folder.write(
      "w.safetensors", test::safetensors({{"a", {"U8", {3}, "abc"}}, {"b", {"F32", {1, 2}, "12345678"}}})));
  TensorSet set;
  EXPECT_EQ(add_safetensors(file, set), (std::vector<std::string>{"a", "b"}));
  const tensor::StoredTensor* b = set.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->bytes(), 8u);
  std::vector<std::byte> scratch;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(b->read(2, 4, scratch)), 4), "3456");
  b->drop(0, 8);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(b->read(0, 8, scratch)), 8), "12345678");
  EXPECT_EQ(*file_of(*b), file.path());
  expect_bad_file([&] { add_safetensors(file, set); }, {file.path(), "'a'", "another file"});
}

}  // namespace
}  // namespace slip::checkpoint
