#include "hub/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"

namespace slip::hub {
namespace {

constexpr mode_t kFileMode = 0666;  // the user's umask decides, as for Hugging Face's client
constexpr mode_t kLockMode = 0664;
constexpr size_t kCopyBuffer = size_t{1} << 20;

[[noreturn]] void fail_path(const fs::path& path, const char* what, int reason) {
  if (reason == ENOSPC || reason == EDQUOT) {
    fail(ErrorKind::kRuntime,
         "{}: the disk is full; what was downloaded is kept, so free some space and run the same command "
         "again",
         path.string());
  }
  fail(ErrorKind::kRuntime, "{}: cannot be {} ({})", path.string(), what, std::strerror(reason));
}

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

class RealFile : public File {
 public:
  RealFile(Descriptor fd, fs::path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  void write(uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t done = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail_path(path_, "written", done == 0 ? ENOSPC : errno);
      bytes = bytes.subspan(static_cast<size_t>(done));
      offset += static_cast<uint64_t>(done);
    }
  }
  size_t read(uint64_t offset, std::span<std::byte> bytes) override {
    size_t total = 0;
    while (total < bytes.size()) {
      const ssize_t done =
          ::pread(fd_.get(), bytes.data() + total, bytes.size() - total, static_cast<off_t>(offset + total));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail_path(path_, "read", errno);
      if (done == 0) break;
      total += static_cast<size_t>(done);
    }
    return total;
  }
  uint64_t size() override {
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) fail_path(path_, "looked at", errno);
    return static_cast<uint64_t>(info.st_size);
  }
  void truncate(uint64_t size) override {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) fail_path(path_, "cut", errno);
  }
  void sync() override {
    if (::fdatasync(fd_.get()) != 0) fail_path(path_, "synced", errno);
  }

 private:
  Descriptor fd_;
  fs::path path_;
};

class RealLock : public Lock {
 public:
  explicit RealLock(Descriptor fd) : fd_(std::move(fd)) {}

 private:
  Descriptor fd_;
};

class RealFiles : public Files {
 public:
  std::unique_ptr<File> open(const fs::path& path) override {
    // A link in this place would let somebody else's file be written.
    Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kFileMode));
    if (fd.get() < 0) fail_path(path, "opened for writing", errno);
    return std::make_unique<RealFile>(std::move(fd), path);
  }
  void rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail_path(from, "renamed", errno);
  }
  void remove(const fs::path& path) override {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_path(path, "removed", errno);
  }
  void remove_empty(const fs::path& folder) override {
    const bool gone =
        ::rmdir(folder.c_str()) == 0 || errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST;
    if (!gone) fail_path(folder, "removed", errno);
  }
  void remove_all(const fs::path& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) fail_path(path, "removed", error.value());
  }
  bool link(const std::string& target, const fs::path& path) override {
    if (::symlink(target.c_str(), path.c_str()) == 0) return true;
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) return false;
    if (errno != EEXIST) fail_path(path, "made", errno);
    const fs::path beside = path.string() + kNewSuffix;
    remove(beside);
    if (::symlink(target.c_str(), beside.c_str()) != 0) fail_path(path, "made", errno);
    rename(beside, path);
    return true;
  }
  void make_folders(const fs::path& path) override {
    std::vector<fs::path> missing;
    std::error_code ignored;
    for (fs::path at = path; !at.empty() && !fs::exists(at, ignored); at = at.parent_path())
      missing.push_back(at);
    for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
      if (::mkdir(at->c_str(), 0777) != 0 && errno != EEXIST) fail_path(*at, "made", errno);
      sync_folder(at->parent_path());
    }
  }
  void sync_folder(const fs::path& path) override {
    const Descriptor fd(::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) fail_path(path, "opened", errno);
    // Some network file systems cannot sync a folder; they do not lose it either.
    if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) fail_path(path, "synced", errno);
  }
  void copy(const fs::path& from, const fs::path& to) override {
    const Descriptor in(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
    if (in.get() < 0) fail_path(from, "opened", errno);
    const fs::path beside = to.string() + kNewSuffix;
    remove(beside);
    const auto out = open(beside);
    std::vector<std::byte> buffer(kCopyBuffer);
    for (uint64_t offset = 0;;) {
      const ssize_t count = ::read(in.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_path(from, "read", errno);
      if (count == 0) break;
      out->write(offset, std::span(buffer).first(static_cast<size_t>(count)));
      offset += static_cast<uint64_t>(count);
    }
    out->sync();
    rename(beside, to);
  }
  uint64_t free_bytes(const fs::path& folder) override {
    std::error_code ignored;
    fs::path at = fs::absolute(folder, ignored);
    while (!fs::exists(at, ignored) && at.has_relative_path()) at = at.parent_path();
    struct statvfs info {};
    if (::statvfs(at.c_str(), &info) != 0) fail_path(at, "looked at", errno);
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  }
  LockAttempt try_lock(const fs::path& path) override {
    // Who holds a lock may have removed its file, as old clients do: then the lock we got is on a file that
    // nobody else will find.
    for (int tries = 0; tries < 100; ++tries) {
      Descriptor fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kLockMode));
      if (fd.get() < 0) fail_path(path, "opened for writing", errno);
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK || errno == EINTR) return {LockState::kTaken};
        return {LockState::kUnsupported};
      }
      struct stat mine {
      }, named{};
      if (::fstat(fd.get(), &mine) == 0 && ::stat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
          mine.st_dev == named.st_dev) {
        return {LockState::kHeld, std::make_unique<RealLock>(std::move(fd))};
      }
    }
    return {LockState::kTaken};
  }

 private:
  static constexpr const char* kNewSuffix = ".slipstream.new";
};

std::string random_suffix() {
  std::random_device random;
  return fmt::format("{:08x}", random());
}

}  // namespace

Files& real_files() {
  static RealFiles files;
  return files;
}

void write_atomically(Files& files, const fs::path& path, const std::string& text) {
  const fs::path beside = path.string() + "." + random_suffix() + ".tmp";
  try {
    const auto file = files.open(beside);
    file->write(0, std::as_bytes(std::span(text)));
    file->sync();
  } catch (const Error&) {
    files.remove(beside);
    throw;
  }
  files.rename(beside, path);
  files.sync_folder(path.parent_path());
}

}  // namespace slip::hub
