// The real files behind a wrapper that a test overrides where it wants something to go wrong.
#pragma once

#include "hub/files.h"

namespace slip::hub {

class WrappedFiles : public Files {
 public:
  std::unique_ptr<File> open(const fs::path& path) override { return real_files().open(path); }
  void rename(const fs::path& from, const fs::path& to) override { real_files().rename(from, to); }
  void remove(const fs::path& path) override { real_files().remove(path); }
  void remove_empty(const fs::path& folder) override { real_files().remove_empty(folder); }
  void remove_all(const fs::path& path) override { real_files().remove_all(path); }
  bool link(const std::string& target, const fs::path& path) override {
    return real_files().link(target, path);
  }
  void make_folders(const fs::path& path) override { real_files().make_folders(path); }
  void sync_folder(const fs::path& path) override { real_files().sync_folder(path); }
  void copy(const fs::path& from, const fs::path& to) override { real_files().copy(from, to); }
  uint64_t free_bytes(const fs::path& folder) override { return real_files().free_bytes(folder); }
  LockAttempt try_lock(const fs::path& path) override { return real_files().try_lock(path); }
};

class WrappedFile : public File {
 public:
  explicit WrappedFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
  void write(uint64_t offset, std::span<const std::byte> bytes) override { file_->write(offset, bytes); }
  size_t read(uint64_t offset, std::span<std::byte> bytes) override { return file_->read(offset, bytes); }
  uint64_t size() override { return file_->size(); }
  void truncate(uint64_t size) override { file_->truncate(size); }
  void sync() override { file_->sync(); }

 private:
  std::unique_ptr<File> file_;
};

}  // namespace slip::hub
