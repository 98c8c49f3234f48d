#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace slip {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_file("{}: cannot be opened ({})", path, std::strerror(errno));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail_file("{}: is not a regular file", path);
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) {
    ::close(fd);
    fail_file("{}: is empty; download it again", path);
  }
  void* mapping = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  const int reason = errno;
  ::close(fd);
  if (mapping == MAP_FAILED) fail_file("{}: cannot be mapped ({})", path, std::strerror(reason));
  data_ = static_cast<const std::byte*>(mapping);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop(size_t offset, size_t count) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + count) / page * page;
  if (begin < end && end <= size_)
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

std::string read_text_file(const std::string& path, size_t limit) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) fail_file("{}: cannot be opened ({})", path, std::strerror(errno));
  const auto size = file.tellg();
  if (size < 0) fail_file("{}: is not a regular file", path);
  if (static_cast<size_t>(size) > limit) {
    fail_file("{}: is {} bytes long, more than the {} this kind of file may have", path,
              static_cast<size_t>(size), limit);
  }
  std::string text(static_cast<size_t>(size), '\0');
  file.seekg(0);
  file.read(text.data(), size);
  if (!file) fail_file("{}: could not be read to its end", path);
  return text;
}

}  // namespace slip
