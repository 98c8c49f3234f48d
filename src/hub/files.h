// Every call that changes the cache goes through this interface, so that a test can record them, lose what
// was not synced, or let a disk run full. The real one is a thin layer over the system's calls.
//
// What survives a loss of power: the bytes of a file after sync(), the entries of a folder after
// sync_folder(). Nothing else is counted on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace slip::hub {

namespace fs = std::filesystem;

/// An open file. read() and write() may be called from several threads at once.
class File {
 public:
  virtual ~File() = default;
  virtual void write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Fewer bytes than asked for only at the end of the file.
  virtual size_t read(uint64_t offset, std::span<std::byte> bytes) = 0;
  virtual uint64_t size() = 0;
  virtual void truncate(uint64_t size) = 0;
  virtual void sync() = 0;
};

/// A lock on a file, held until destroyed. It says nothing about integrity: some file systems lie about it.
class Lock {
 public:
  virtual ~Lock() = default;
};

enum class LockState { kHeld, kTaken, kUnsupported };
struct LockAttempt {
  LockState state = LockState::kTaken;
  std::unique_ptr<Lock> lock = {};
};

/// Throws Error(kRuntime) that names the path; kind and words fit a full disk, too.
class Files {
 public:
  virtual ~Files() = default;
  /// For reading and writing; made if it is not there, with the user's usual mode.
  virtual std::unique_ptr<File> open(const fs::path& path) = 0;
  virtual void rename(const fs::path& from, const fs::path& to) = 0;
  /// A file or a link; absent is fine.
  virtual void remove(const fs::path& path) = 0;
  /// A folder with nothing in it; absent is fine, and so is one that has something in it: that stays.
  virtual void remove_empty(const fs::path& folder) = 0;
  /// A folder and all in it; absent is fine.
  virtual void remove_all(const fs::path& path) = 0;
  /// Makes a symbolic link in place of whatever is there. False where the file system has none.
  virtual bool link(const std::string& target, const fs::path& path) = 0;
  /// Makes the folder and those above it that are missing, and syncs each one's parent.
  virtual void make_folders(const fs::path& path) = 0;
  virtual void sync_folder(const fs::path& path) = 0;
  virtual void copy(const fs::path& from, const fs::path& to) = 0;
  /// Bytes that may still be written below this folder, which need not be there yet.
  virtual uint64_t free_bytes(const fs::path& folder) = 0;
  virtual LockAttempt try_lock(const fs::path& path) = 0;
};

Files& real_files();

/// Writes a small file whole or not at all: a new file beside it, synced, then renamed.
void write_atomically(Files& files, const fs::path& path, const std::string& text);

}  // namespace slip::hub
