// A file mapped for reading. The bytes stay on disk until touched; drop() gives touched pages back, so that
// packing a checkpoint never holds both copies in memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace slip {

class MappedFile {
 public:
  /// Throws Error(kBadFile) that names the path when it cannot be opened, is no regular file or is empty.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// Tells the kernel that these bytes are not needed for now (whole pages inside the range only).
  void drop(size_t offset, size_t count) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Reads a small text file whole. Throws Error(kBadFile) when missing or larger than `limit`.
std::string read_text_file(const std::string& path, size_t limit = size_t{256} << 20);

}  // namespace slip
