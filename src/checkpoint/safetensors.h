// safetensors: a file of an 8-byte little-endian header length, a JSON header that lists the tensors, and
// their bytes. parse_header() trusts nothing: it is a pure function, so a fuzzer can drive it, and what it
// returns is safe to read without another check. As the format demands, the tensors must cover the rest of
// the file exactly, without holes. Cost: one pass over the header, no copy of any tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/tensor_set.h"
#include "tensor/dtype.h"

namespace slip::checkpoint {

struct HeaderEntry {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // from the start of the file
  uint64_t end = 0;
};

/// `bytes` is the file from its start, at least as far as the header reaches; `file` is its name for
/// messages. The entries come in the order of their bytes. Throws Error(kBadFile) naming file, tensor and
/// fault.
std::vector<HeaderEntry> parse_header(std::span<const std::byte> bytes, uint64_t file_size,
                                      const std::string& file);

/// Adds the file's tensors to the set, as views of its mapping, and returns their names. The file must
/// outlive them. A name that the set has already is an error.
std::vector<std::string> add_safetensors(const MappedFile& file, TensorSet& tensors);

/// The path of the file that holds the tensor, or nullptr when it comes from none.
const std::string* file_of(const tensor::StoredTensor& tensor);

}  // namespace slip::checkpoint
