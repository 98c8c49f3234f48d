// Loss of power: every call that changes a file is recorded, the power goes after each of them in turn, what
// was not synced is dropped, and a new pull must make the model whole from what is left. Two disks are
// imagined: one that forgets names of files as well as bytes, and one that keeps names and loses bytes, which
// is the one that leaves finished-looking files full of nothing.
#include <map>
#include <mutex>

#include "hub/hub_fixture.h"
#include "hub/wrapped_files.h"

namespace slip::hub {
namespace {

struct PowerLoss {};

/// Files in memory, with what of them is safe.
class Disk {
 public:
  struct Inode {
    std::string bytes, safe;
    bool link = false;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  std::recursive_mutex mutex;
  Names names, safe_names;  // by path
  size_t calls = 0;
  std::optional<size_t> dies_after;
  bool dead = false;

  void call() {
    if (dead || (dies_after && calls >= *dies_after)) {
      dead = true;
      throw Error(ErrorKind::kRuntime, "the power is gone");
    }
    ++calls;
  }
};

/// Real files below, so that the code under test can look at them, and the disk's memory of what was synced.
class DyingFiles : public WrappedFiles {
 public:
  explicit DyingFiles(Disk& disk) : disk_(disk) {}

  struct DyingFile : WrappedFile {
    Disk& disk;
    std::shared_ptr<Disk::Inode> inode;
    DyingFile(std::unique_ptr<File> file, Disk& of, std::shared_ptr<Disk::Inode> node)
        : WrappedFile(std::move(file)), disk(of), inode(std::move(node)) {}
    void write(uint64_t offset, std::span<const std::byte> bytes) override {
      const std::lock_guard lock(disk.mutex);
      disk.call();
      WrappedFile::write(offset, bytes);
      if (inode->bytes.size() < offset + bytes.size()) inode->bytes.resize(offset + bytes.size());
      std::memcpy(inode->bytes.data() + offset, bytes.data(), bytes.size());
    }
    void truncate(uint64_t size) override {
      const std::lock_guard lock(disk.mutex);
      disk.call();
      WrappedFile::truncate(size);
      inode->bytes.resize(size);
    }
    void sync() override {
      const std::lock_guard lock(disk.mutex);
      disk.call();
      inode->safe = inode->bytes;
    }
  };

  std::unique_ptr<File> open(const fs::path& path) override {
    const std::lock_guard lock(disk_.mutex);
    disk_.call();
    auto file = WrappedFiles::open(path);
    auto& node = disk_.names[path.string()];
    if (!node) node = std::make_shared<Disk::Inode>();
    return std::make_unique<DyingFile>(std::move(file), disk_, node);
  }
  void rename(const fs::path& from, const fs::path& to) override {
    const std::lock_guard lock(disk_.mutex);
    disk_.call();
    WrappedFiles::rename(from, to);
    disk_.names[to.string()] = disk_.names.at(from.string());
    disk_.names.erase(from.string());
  }
  void remove(const fs::path& path) override {
    const std::lock_guard lock(disk_.mutex);
    disk_.call();
    WrappedFiles::remove(path);
    disk_.names.erase(path.string());
  }
  bool link(const std::string& target, const fs::path& path) override {
    const std::lock_guard lock(disk_.mutex);
    disk_.call();
    WrappedFiles::link(target, path);
    auto node = std::make_shared<Disk::Inode>();
    node->bytes = node->safe = target;
    node->link = true;
    disk_.names[path.string()] = node;
    return true;
  }
  void make_folders(const fs::path& path) override { WrappedFiles::make_folders(path); }
  void sync_folder(const fs::path& path) override {
    const std::lock_guard lock(disk_.mutex);
    disk_.call();
    std::erase_if(disk_.safe_names,
                  [&](const auto& name) { return fs::path(name.first).parent_path() == path; });
    for (const auto& [name, node] : disk_.names) {
      if (fs::path(name).parent_path() == path) disk_.safe_names[name] = node;
    }
  }

 private:
  Disk& disk_;
};

class PowerLossTest : public HubTest {
 protected:
  PowerLossTest() {
    // Small enough to be pulled a hundred times, and more than one block.
    server_.remove(kModel, "tokenizer.json");
    first_ = random_bytes(5, 2'300'000);
    second_ = random_bytes(6, 300'000);
    server_.add(kModel, "model-00001-of-00002.safetensors", first_, true);
    server_.add(kModel, "model-00002-of-00002.safetensors", second_, true);
  }

  /// What is on the disk once the power is back.
  void restore(const Disk& disk, bool forgets_names) {
    std::vector<fs::path> old;
    for (const auto& entry : fs::recursive_directory_iterator(environment_.cache)) {
      if (!entry.is_directory() || entry.is_symlink()) old.push_back(entry.path());
    }
    for (const fs::path& path : old) fs::remove(path);
    for (const auto& [name, node] : forgets_names ? disk.safe_names : disk.names) {
      fs::create_directories(fs::path(name).parent_path());
      if (node->link) {
        fs::create_symlink(node->safe, name);
      } else {
        std::ofstream(name, std::ios::binary) << node->safe;
      }
    }
  }

  void lose_power_everywhere(bool forgets_names) {
    size_t calls = 1;
    for (size_t at = 1; at <= calls; at += 1 + at / 8) {
      fs::remove_all(environment_.cache);
      Disk disk;
      disk.dies_after = at;
      DyingFiles dying(disk);
      files_ = &dying;
      bool died = false;
      try {
        pull(kModel, false, 2);
      } catch (const Error&) {
        died = true;
      }
      files_ = &real_files();
      restore(disk, forgets_names);
      // Nothing that has its final name may be wrong.
      std::error_code ignored;
      for (const auto& [path, file] : server_.repository(kModel).files) {
        const fs::path final_name = cached().blob(file.etag);
        const bool wrong = fs::exists(final_name, ignored) && file_text(final_name) != file.content;
        EXPECT_FALSE(wrong) << at << " " << path;
      }
      const std::string reference = file_text(cached().reference("main"));
      if (!reference.empty()) {
        EXPECT_EQ(reference, commit()) << at;
        EXPECT_TRUE(missing_files(snapshot().string()).empty()) << at;
      }
      pull();
      expect_complete();
      if (HasFailure()) FAIL() << "when the power went after call " << at;
      calls = died ? std::max(calls, at + 1 + at / 8) : at;
    }
    EXPECT_GT(calls, 60u);
  }
};

TEST_F(PowerLossTest, on_a_disk_that_forgets_names_the_next_pull_makes_the_model_whole) {
  lose_power_everywhere(true);
}

TEST_F(PowerLossTest, on_a_disk_that_keeps_names_but_loses_bytes_too) {
  lose_power_everywhere(false);
}

TEST_F(PowerLossTest, a_mark_is_safe_only_after_its_bytes_are) {
  Disk disk;
  DyingFiles dying(disk);
  fs::create_directories(cached().blobs());
  Partial partial(dying, cached().blob("x"), "x", 2 * kBlock);
  const std::string bytes = random_bytes(1, 2 * kBlock);
  partial.write(0, std::as_bytes(std::span(bytes)));
  partial.mark({1});
  const std::string map = disk.names.at(cached().blob("x").string() + ".slipstream.map")->safe;
  EXPECT_EQ(map.size(), 256u + 2u);
  EXPECT_EQ(disk.names.at(cached().blob("x").string() + ".slipstream")->safe.size(), 2 * kBlock);
  EXPECT_EQ(marked_bytes_of(map, "x", 2 * kBlock, 2 * kBlock), kBlock);
  EXPECT_EQ(marked_bytes_of(map, "y", 2 * kBlock, 2 * kBlock), 0u);
  EXPECT_EQ(marked_bytes_of(map, "x", 2 * kBlock, kBlock), 0u);  // the data is shorter than the mark says
}

}  // namespace
}  // namespace slip::hub
