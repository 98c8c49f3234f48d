#include "media/media_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "media/refused.h"

namespace slip::media {
namespace {

constexpr size_t kPiece = size_t{1} << 20;

void check_kind(const Descriptor& file, const std::string& name) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_file("{}: cannot be read ({})", name, std::strerror(errno));
  if (S_ISDIR(info.st_mode)) fail_file("{}: is a folder; name the picture in it", name);
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    fail_file("{}: is neither a file nor a pipe; name a picture", name);
  }
}

/// Waits until a pipe has something to read, looking now and then whether we are to stop.
void await_input(const Descriptor& file, const std::string& name, const Limits& limits,
                 std::stop_token stop) {
  constexpr int kLook = 50;
  pollfd poll{file.get(), POLLIN, 0};
  while (::poll(&poll, 1, kLook) <= 0) {
    if (stop.stop_requested()) throw Refused({.fault = Fault::kCancelled}, name, limits);
  }
}

}  // namespace

std::vector<std::byte> read_media_file(const std::string& path, const Limits& limits, std::stop_token stop) {
  // Without O_NONBLOCK a pipe that nobody writes to would hold us here.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) fail_file("{}: cannot be opened ({})", path, std::strerror(errno));
  return read_media_file(file, path, limits, stop);
}

std::vector<std::byte> read_media_file(const Descriptor& file, const std::string& name, const Limits& limits,
                                       std::stop_token stop) {
  check_kind(file, name);
  std::vector<std::byte> bytes;
  for (;;) {
    const size_t at = bytes.size();
    bytes.resize(at + kPiece);
    const ssize_t got = ::read(file.get(), bytes.data() + at, kPiece);
    const int error = errno;
    bytes.resize(at + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (bytes.size() > limits.bytes) throw Refused({.fault = Fault::kTooManyBytes}, name, limits);
    if (got == 0) break;
    if (got < 0 && error == EAGAIN) {
      await_input(file, name, limits, stop);
    } else if (got < 0 && error != EINTR) {
      fail_file("{}: cannot be read ({})", name, std::strerror(error));
    }
  }
  if (bytes.empty()) throw Refused({.fault = Fault::kEmpty}, name, limits);
  return bytes;
}

}  // namespace slip::media
