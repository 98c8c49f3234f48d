#include "media/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace slip::media {
namespace {

[[noreturn]] void no_memory(size_t size) {
  fail(ErrorKind::kOutOfMemory, "there is no memory for {} KiB of media ({})", size >> 10,
       std::strerror(errno));
}

}  // namespace

SharedFile::SharedFile(size_t size)
    : descriptor_(::memfd_create("slipstream-media", MFD_CLOEXEC | MFD_ALLOW_SEALING)), size_(size) {
  if (!descriptor_.valid()) no_memory(size);
}

SharedFile::~SharedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      size_(other.size_),
      data_(std::exchange(other.data_, nullptr)) {}

SharedFile SharedFile::holding(Bytes bytes) {
  SharedFile file(bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.descriptor_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) no_memory(file.size_);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (::fcntl(file.descriptor_.get(), F_ADD_SEALS,
              F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    no_memory(file.size_);
  }
  return file;
}

SharedFile SharedFile::of_size(size_t size) {
  SharedFile file(size);
  const int fd = file.descriptor_.get();
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) no_memory(size);
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) no_memory(size);
  file.data_ = static_cast<std::byte*>(at);
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) no_memory(size);
  return file;
}

}  // namespace slip::media
