#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/files.h"

namespace slip {
namespace {

using test::expect_bad_file;
using test::TempFolder;

TEST(MappedFile, the_bytes_are_those_of_the_file_also_after_a_drop) {
  std::string text(3 * 65536 + 17, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 >> 3);
  const TempFolder folder;
  const MappedFile file(folder.write("data", text));
  EXPECT_EQ(file.path(), folder / "data");
  const auto content = [&] {
    return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  };
  EXPECT_EQ(content(), text);
  file.drop(0, text.size());
  file.drop(5, 3);
  file.drop(100, 70000);
  file.drop(text.size(), 100);
  EXPECT_EQ(content(), text);
}

TEST(MappedFile, a_file_that_is_missing_empty_or_a_folder_is_named) {
  const TempFolder folder;
  expect_bad_file([&] { MappedFile file(folder / "none"); }, {folder / "none", "cannot be opened"});
  expect_bad_file([&] { MappedFile file(folder.path()); }, {folder.path(), "not a regular file"});
  expect_bad_file([&] { MappedFile file(folder.write("empty", "")); }, {"empty"});
}

TEST(ReadTextFile, reads_all_of_it_up_to_the_limit) {
  const TempFolder folder;
  const std::string text("line\nwith \0 zero", 16);
  const std::string path = folder.write("a.txt", text);
  EXPECT_EQ(read_text_file(path), text);
  EXPECT_EQ(read_text_file(path, 16), text);
  EXPECT_EQ(read_text_file(folder.write("b", "")), "");
  expect_bad_file([&] { read_text_file(path, 15); }, {path, "16 bytes"});
  expect_bad_file([&] { read_text_file(folder / "none"); }, {"none", "cannot be opened"});
  expect_bad_file([&] { read_text_file(folder.path()); }, {folder.path()});
}

}  // namespace
}  // namespace slip
