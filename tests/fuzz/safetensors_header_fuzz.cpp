// Fuzzes parse_header(). Two bytes in front say how many bytes of data follow the header, a third whether the
// rest is a whole file as it is or only the header text, which then gets a fitting length: otherwise nearly
// every input would fail at the length.
#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "fuzz/target.h"

namespace {

using slip::checkpoint::HeaderEntry;

/// What a caller may rely on: every tensor lies in the file, fills its bytes, and follows the one before it.
void check_entries(const std::vector<HeaderEntry>& entries, uint64_t begin, uint64_t end) {
  uint64_t at = begin;
  for (const HeaderEntry& entry : entries) {
    fuzz_check(entry.begin == at && entry.end >= entry.begin && entry.end <= end);
    uint64_t bytes = slip::tensor::size_of(entry.dtype);
    for (const int64_t extent : entry.shape) {
      fuzz_check(extent >= 0);
      bytes *= static_cast<uint64_t>(extent);
    }
    fuzz_check(bytes == entry.end - entry.begin);
    at = entry.end;
  }
  fuzz_check(at == end);
}

std::string little_endian(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const uint64_t data_bytes = data[0] | static_cast<uint64_t>(data[1]) << 8;
  std::string file(reinterpret_cast<const char*>(data) + 3, size - 3);
  if (data[2] % 2 == 0) file = little_endian(file.size()) + file;
  const uint64_t file_size = file.size() + data_bytes;
  try {
    const auto entries = slip::checkpoint::parse_header(std::as_bytes(std::span(file)), file_size, "fuzz");
    const uint64_t begin = entries.empty() ? file_size : entries.front().begin;
    fuzz_check(begin >= 8);
    check_entries(entries, begin, file_size);
  } catch (const slip::Error&) {
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const std::string two =
      R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"U32","shape":[1],"data_offsets":[16,20]}})";
  const std::string many =
      R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"y":{"dtype":"I8","shape":[3],"data_offsets":[4,7]},)"
      R"("z":{"shape":[0,5],"data_offsets":[7,7],"dtype":"F16"},"w":{"dtype":"BOOL","shape":[1,1,2],)"
      R"("data_offsets":[7,9]}}   )";
  return {std::string("\x14\0\0", 3) + two, std::string("\x09\0\0", 3) + many,
          std::string("\x14\0\1", 3) + little_endian(two.size()) + two, std::string("\0\0\0", 3) + "{}"};
}
