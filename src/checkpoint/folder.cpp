#include "checkpoint/folder.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "checkpoint/safetensors.h"

namespace slip::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kLargestIndex = size_t{64} << 20;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// The first file of the folder whose name ends like this, or nothing.
std::string file_ending(const std::string& folder, std::string_view ending) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending)) return name;
  }
  return "";
}

[[noreturn]] void fail_without_weights(const std::string& folder) {
  if (const std::string name = file_ending(folder, ".safetensors"); !name.empty()) {
    fail_file("{}: has {} but neither {} nor {}; download the missing file", folder, in_quotes(name), kSingle,
              kIndex);
  }
  if (const std::string name = file_ending(folder, ".gguf"); !name.empty()) {
    fail_file("{}: has no safetensors; it has {}, but GGUF files are not supported yet", folder,
              in_quotes(name));
  }
  for (const char* ending : {".bin", ".pt", ".pth"}) {
    if (const std::string name = file_ending(folder, ending); !name.empty()) {
      fail_file("{}: has no safetensors; PyTorch files such as {} are not supported", folder,
                in_quotes(name));
    }
  }
  fail_file("{}: has no weights; expected {}, or shards with {}", folder, kSingle, kIndex);
}

/// Tensor names by shard. Shards are plain file names: an index that reaches out of its folder is refused.
std::map<std::string, std::vector<std::string>> read_index(const std::string& folder,
                                                           const std::string& path) {
  const nlohmann::json document = parse_json(read_text_file(path, kLargestIndex), path);
  const auto table = JsonObject(document, path).object("weight_map");
  if (!table) fail_file("{}: weight_map is missing; download the file again", path);
  std::map<std::string, std::vector<std::string>> shards;
  for (const std::string& tensor : table->keys()) {
    const auto shard = table->text(tensor);
    if (!shard) fail_file("{}: tensor {} has no shard", path, in_quotes(tensor));
    shards[*shard].push_back(tensor);
  }
  if (shards.empty()) fail_file("{}: weight_map is empty; download the file again", path);
  for (const auto& [shard, tensors] : shards) {
    const bool plain = !shard.empty() && shard != "." && shard != ".." &&
                       shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
    if (!plain) {
      fail_file("{}: names the shard {}, which is not a file name in this folder", path, in_quotes(shard));
    }
    if (!is_file(fs::path(folder) / shard)) {
      fail_file("{}: names the shard {}, which is missing; download it", path, in_quotes(shard));
    }
  }
  return shards;
}

void map_shards(const std::string& folder, FolderTensors& result) {
  for (const auto& [shard, listed] : read_index(folder, result.where)) {
    const std::string path = (fs::path(folder) / shard).string();
    const auto& file = result.files.emplace_back(std::make_unique<MappedFile>(path));
    const auto names = add_safetensors(*file, result.tensors);
    const std::set<std::string_view> present(names.begin(), names.end());
    for (const std::string& tensor : listed) {
      if (!present.contains(tensor)) {
        fail_file("{}: tensor {} should be in this shard by {}, but is not", path, in_quotes(tensor), kIndex);
      }
    }
  }
}

}  // namespace

std::string find_config(const std::string& folder) {
  std::error_code error;
  const auto status = fs::status(folder, error);
  if (!fs::exists(status)) fail_file("{}: there is no such folder", folder);
  if (!fs::is_directory(status)) {
    const bool gguf = folder.ends_with(".gguf");
    fail_file("{}: is a file, but a model is a folder{}", folder,
              gguf ? "; GGUF files are not supported yet" : "; give the folder that holds it");
  }
  const fs::path config = fs::path(folder) / "config.json";
  if (is_file(config)) return config.string();
  if (const std::string name = file_ending(folder, ".gguf"); !name.empty()) {
    fail_file("{}: has no config.json; it has {}, but GGUF files are not supported yet", folder,
              in_quotes(name));
  }
  fail_file("{}: has no config.json, so it is not a model folder", folder);
}

void FolderTensors::move_into(CheckpointFiles& opened, const std::string& folder) {
  opened.path = folder;
  for (const auto& file : files) opened.file_bytes += file->bytes().size();
  opened.tensors = std::move(tensors);
  opened.files = std::move(files);
}

FolderTensors map_tensors(const std::string& folder) {
  FolderTensors result;
  const fs::path single = fs::path(folder) / kSingle;
  const fs::path index = fs::path(folder) / kIndex;
  // A single file that is there is whole; an index beside it is a left-over or names only it.
  if (is_file(single)) {
    result.where = single.string();
    add_safetensors(*result.files.emplace_back(std::make_unique<MappedFile>(result.where)), result.tensors);
  } else if (is_file(index)) {
    result.where = index.string();
    map_shards(folder, result);
  } else {
    fail_without_weights(folder);
  }
  return result;
}

}  // namespace slip::checkpoint
