// Files for tests: a folder that vanishes, safetensors written byte by byte (independent of the code under
// test), and the check that a bad one is refused with a sentence that names what it should.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace slip::test {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "slip-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file, making the folders on its way; returns its path.
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

struct FileTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using FileTensors = std::map<std::string, FileTensor>;

/// A file with this header text and this data, whatever they say.
inline std::string raw_safetensors(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((uint64_t{header.size()} >> (8 * i)) & 0xff);
  return bytes + header + data;
}

inline std::string safetensors(const FileTensors& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}", data;
  for (const auto& [name, tensor] : tensors) {
    std::string shape;
    for (const int64_t extent : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    header += ",\"" + name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  return raw_safetensors(header + "}", data);
}

/// Calls `work` and expects Error(kBadFile) whose sentence holds all of `words`.
template <typename F>
void expect_bad_file(F&& work, std::initializer_list<std::string> words) {
  try {
    work();
    ADD_FAILURE() << "nothing was thrown; expected a sentence with '" << *words.begin() << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadFile) << error.what();
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "'" << word << "' is not in: " << error.what();
    }
  }
}

}  // namespace slip::test
