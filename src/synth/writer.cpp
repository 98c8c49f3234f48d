#include "synth/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "synth/synthetic_tokenizer.h"

namespace slip::synth {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using tensor::StoredTensor;

constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr const char* kStage = ".slipstream-partial";
constexpr const char* kIndexName = "model.safetensors.index.json";
// JSON, headers and the file system's own blocks; generous, since a disk that is this full should not be
// filled further.
constexpr size_t kSpaceMargin = size_t{16} << 20;

std::string bytes_text(size_t bytes) {
  const auto count = static_cast<double>(bytes);
  return count < 1e9 ? fmt::format("{:.1f} MB", count * 1e-6) : fmt::format("{:.1f} GB", count * 1e-9);
}

/// One safetensors file: its header and the tensors in the order of their bytes.
struct Shard {
  std::string name;
  std::vector<const StoredTensor*> tensors;
  size_t bytes = 0;
};

/// A file being written. Any failure throws with the path and the system's reason.
class OutputFile {
 public:
  explicit OutputFile(const fs::path& path)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
    if (fd_ < 0) refuse("cannot create");
  }
  ~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, size_t count) {
    const auto* at = static_cast<const char*>(data);
    while (count > 0) {
      const ssize_t written = ::write(fd_, at, count);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) refuse("cannot write");
      at += written;
      count -= static_cast<size_t>(written);
    }
  }
  void write(const std::string& text) { write(text.data(), text.size()); }

  /// Some file systems report a full disk only here.
  void close() {
    if (::close(std::exchange(fd_, -1)) != 0) refuse("cannot finish");
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    fail(ErrorKind::kRuntime, "{} {}: {}; nothing was kept", what, path_.string(), std::strerror(errno));
  }

  fs::path path_;
  int fd_;
};

/// The target folder while it is being written. Unless publish() ran to its end, destruction removes what was
/// added.
class Stage {
 public:
  Stage(const fs::path& folder, bool overwrite) : folder_(folder), stage_(folder / kStage) {
    require_usable(folder, overwrite);
    std::error_code error;
    for (fs::path missing = fs::absolute(folder, error); !missing.empty() && !fs::exists(missing, error);
         missing = missing.parent_path()) {
      created_.push_back(missing);
    }
    fs::create_directories(folder, error);
    if (!error) fs::remove_all(stage_, error);
    if (!error) fs::create_directory(stage_, error);
    if (error) {
      remove();
      fail(ErrorKind::kRuntime, "cannot create the folder {}: {}", folder.string(), error.message());
    }
  }
  ~Stage() { remove(); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  const fs::path& path() const { return stage_; }

  static void require_usable(const fs::path& folder, bool overwrite) {
    std::error_code error;
    const fs::file_status status = fs::status(folder, error);
    if (fs::exists(status) && !fs::is_directory(status)) {
      fail_usage("{} is a file, not a folder", folder.string());
    }
    if (!overwrite && !is_free(folder)) {
      fail_usage("{} is not empty; name a new folder or ask for it to be overwritten", folder.string());
    }
  }

  void require_space(size_t needed) const {
    std::error_code error;
    const fs::space_info space = fs::space(stage_, error);
    if (error || space.available >= needed) return;  // unknown: let the write decide
    fail(ErrorKind::kRuntime, "{} needs {} and its disk has {} free; free some space or use another disk",
         folder_.string(), bytes_text(needed), bytes_text(space.available));
  }

  /// Takes the old checkpoint away, config.json first, and moves the new one in, config.json last, so that at
  /// no moment the folder holds a config.json with tensors that are not its own.
  void publish() {
    fs::remove(folder_ / "config.json");
    for (const fs::path& old : list(folder_)) {
      const std::string name = old.filename();
      if (old.extension() == ".safetensors" || name == kIndexName || name == "generation_config.json") {
        fs::remove(old);
      }
    }
    for (const fs::path& file : list(stage_)) {
      if (file.filename() != "config.json") fs::rename(file, folder_ / file.filename());
    }
    fs::rename(stage_ / "config.json", folder_ / "config.json");
    fs::remove(stage_);
    published_ = true;
  }

 private:
  static std::vector<fs::path> list(const fs::path& folder) {
    std::vector<fs::path> paths;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) paths.push_back(entry.path());
    return paths;
  }

  /// Missing, empty, or holding only the remains of a killed run.
  static bool is_free(const fs::path& folder) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (at->path().filename() != kStage) return false;
    }
    return true;
  }

  void remove() noexcept {
    if (published_) return;
    std::error_code ignored;
    fs::remove_all(stage_, ignored);
    for (const fs::path& folder : created_) fs::remove(folder, ignored);
  }

  fs::path folder_, stage_;
  std::vector<fs::path> created_;  // innermost first
  bool published_ = false;
};

/// Wide elements first, as the safetensors library does, so that every tensor is aligned to its element.
std::vector<Shard> plan_shards(const checkpoint::TensorSet& tensors, size_t shard_bytes) {
  std::vector<const StoredTensor*> order;
  for (const auto& [name, tensor] : tensors) order.push_back(tensor.get());
  std::stable_sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return tensor::size_of(a->dtype()) > tensor::size_of(b->dtype());
  });
  std::vector<Shard> shards(1);
  for (const StoredTensor* tensor : order) {
    const bool full = shard_bytes > 0 && shards.back().bytes + tensor->bytes() > shard_bytes;
    if (full && !shards.back().tensors.empty()) shards.emplace_back();
    shards.back().tensors.push_back(tensor);
    shards.back().bytes += tensor->bytes();
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

/// The header with its length in front, padded with spaces so that the tensors start at a multiple of 8.
std::string header_of(const Shard& shard, const char* writer_format) {
  Json header{{"__metadata__", {{"format", writer_format}}}};
  size_t offset = 0;
  for (const StoredTensor* tensor : shard.tensors) {
    header[tensor->name()] = {{"dtype", tensor::name_of(tensor->dtype())},
                              {"shape", tensor->shape()},
                              {"data_offsets", {offset, offset + tensor->bytes()}}};
    offset += tensor->bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) & ~size_t{7}, ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

std::string index_of(const std::vector<Shard>& shards, size_t total) {
  Json map = Json::object();
  for (const Shard& shard : shards) {
    for (const StoredTensor* tensor : shard.tensors) map[tensor->name()] = shard.name;
  }
  return Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
}

class FolderWriter {
 public:
  FolderWriter(const fs::path& folder, const WriteOptions& options, size_t total)
      : folder_(folder), options_(options), total_(total) {}

  void text(const char* name, const std::string& content) {
    OutputFile file(folder_ / name);
    file.write(content);
    file.close();
  }

  void shard(const Shard& shard, const char* writer_format) {
    OutputFile file(folder_ / shard.name);
    file.write(header_of(shard, writer_format));
    for (const StoredTensor* tensor : shard.tensors) {
      for (size_t offset = 0; offset < tensor->bytes();) {
        const size_t count = std::min(kPieceBytes, tensor->bytes() - offset);
        file.write(tensor->read(offset, count, scratch_), count);
        tensor->drop(offset, count);
        offset += count;
        done_ += count;
        if (options_.progress) options_.progress(done_, total_);
      }
    }
    file.close();
  }

 private:
  const fs::path& folder_;
  const WriteOptions& options_;
  size_t total_, done_ = 0;
  std::vector<std::byte> scratch_;
};

bool is_quantised(const checkpoint::TensorSet& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const auto& at) { return at.first.ends_with(".scales"); });
}

/// The files beside the tensors: name and content.
using Texts = std::vector<std::pair<const char*, std::string>>;

/// So that a made-up model can be talked to.
void add_tokenizer(const model::Config& config, Texts& texts) {
  texts.emplace_back("tokenizer.json", synthetic_tokenizer_json(config.vocab));
  texts.emplace_back("tokenizer_config.json", synthetic_tokenizer_config());
  // The models with per-layer embeddings, E2B and E4B, get no empty thought.
  texts.emplace_back("chat_template.jinja", synthetic_chat_template(config.per_layer_dim == 0));
}

void write_files(const checkpoint::TensorSet& tensors, const Texts& texts, const std::string& folder,
                 const WriteOptions& options) {
  const std::vector<Shard> shards = plan_shards(tensors, options.shard_bytes);
  size_t total = 0;
  for (const Shard& shard : shards) total += shard.bytes;

  Stage stage(folder, options.overwrite);
  stage.require_space(total + kSpaceMargin);
  FolderWriter writer(stage.path(), options, total);
  const char* writer_format = is_quantised(tensors) ? "mlx" : "pt";
  for (const Shard& shard : shards) writer.shard(shard, writer_format);
  if (shards.size() > 1) writer.text(kIndexName, index_of(shards, total));
  for (const auto& [name, content] : texts) writer.text(name, content);
  try {
    stage.publish();
  } catch (const fs::filesystem_error& error) {
    fail(ErrorKind::kRuntime, "cannot move the checkpoint into {}: {}", folder, error.code().message());
  }
}

}  // namespace

void write_folder(const Checkpoint& checkpoint, const std::string& folder, const WriteOptions& options) {
  Texts texts = {{"config.json", config_text(checkpoint, options.spelling)},
                 {"generation_config.json", generation_text(checkpoint)}};
  add_tokenizer(checkpoint.config, texts);
  write_files(checkpoint.tensors, texts, folder, options);
}

void write_assistant(const AssistantCheckpoint& assistant, const std::string& folder,
                     const WriteOptions& options) {
  write_files(assistant.tensors,
              {{"config.json", assistant_config_text(assistant, options.spelling)},
               {"generation_config.json", assistant_generation_text(assistant)}},
              folder, options);
}

void check_folder(const std::string& folder, const WriteOptions& options) {
  Stage::require_usable(folder, options.overwrite);
}

}  // namespace slip::synth
