#include "hub/plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/json_text.h"
#include "hub/partial.h"
#include "hub/weight_index.h"

namespace slip::hub {
namespace {

using checkpoint::in_quotes;

constexpr const char* kModelFiles[] = {
    "config.json",         "generation_config.json", "tokenizer_config.json",  "tokenizer.json",
    "chat_template.jinja", "processor_config.json",  "special_tokens_map.json"};
// A drafter works with the tokens of its model.
constexpr const char* kDrafterFiles[] = {"config.json", "generation_config.json"};

const RemoteFile* find(const std::vector<RemoteFile>& listing, const std::string& path) {
  const auto at =
      std::find_if(listing.begin(), listing.end(), [&](const auto& file) { return file.path == path; });
  return at == listing.end() ? nullptr : &*at;
}

bool has_ending(const std::vector<RemoteFile>& listing, std::string_view ending) {
  return std::any_of(listing.begin(), listing.end(),
                     [&](const auto& file) { return file.path.ends_with(ending); });
}

[[noreturn]] void fail_without_weights(const std::vector<RemoteFile>& listing,
                                       const std::string& repository) {
  if (has_ending(listing, ".safetensors")) {
    fail_file("{} has safetensors, but neither {} nor {}; slipstream needs one of them", repository,
              kSingleFile, kIndexFile);
  }
  if (has_ending(listing, ".gguf")) {
    fail_file(
        "{} has GGUF files only, which slipstream does not read yet; name a repository with safetensors",
        repository);
  }
  fail_file("{} has no weights that slipstream reads; name a repository with safetensors", repository);
}

/// Whether the bytes below this name are this file: everything in the cache was checked when it came, so its
/// size is asked for, not its hash.
bool has_size(const fs::path& path, uint64_t size) {
  std::error_code error;
  const bool regular = fs::is_regular_file(path, error);  // through links
  return regular && fs::file_size(path, error) == size && !error;
}

/// What an earlier run left, from its map alone: nothing is opened for writing.
uint64_t partial_bytes(const fs::path& stem, const RemoteFile& file) {
  const std::string map = stem.string() + std::string(kMapSuffix);
  std::error_code error;
  const uint64_t data = fs::file_size(stem.string() + std::string(kPartialSuffix), error);
  if (error || !fs::is_regular_file(map, error)) return 0;
  try {
    return marked_bytes_of(read_text_file(map), file.etag, file.size, data);
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

uint64_t PlannedRepository::total() const {
  uint64_t bytes = 0;
  for (const PlannedFile& planned : files) bytes += planned.file.size;
  return bytes;
}

uint64_t PlannedRepository::there() const {
  uint64_t bytes = 0;
  for (const PlannedFile& planned : files) bytes += planned.there;
  return bytes;
}

bool PlannedRepository::needs_links() const {
  return std::any_of(files.begin(), files.end(),
                     [](const auto& planned) { return planned.state != FileState::kThere; });
}

uint64_t Plan::total() const {
  return model.total() + (drafter ? drafter->total() : 0);
}

uint64_t Plan::there() const {
  return model.there() + (drafter ? drafter->there() : 0);
}

std::vector<RemoteFile> select_files(const std::vector<RemoteFile>& listing,
                                     const std::optional<std::string>& index, const std::string& repository,
                                     Part part) {
  std::vector<RemoteFile> selected;
  const auto add = [&](const char* path) {
    if (const RemoteFile* file = find(listing, path)) selected.push_back(*file);
  };
  if (part == Part::kModel) {
    for (const char* path : kModelFiles) add(path);
  } else {
    for (const char* path : kDrafterFiles) add(path);
  }
  if (find(listing, kConfigFile) == nullptr) {
    if (!has_ending(listing, ".safetensors") && has_ending(listing, ".gguf"))
      fail_without_weights(listing, repository);
    fail_file("{} has no config.json, so it is not a model that slipstream reads", repository);
  }
  std::vector<std::string> weights;
  if (index) {
    add(kIndexFile);
    weights = parse_weight_index(*index, repository + "/" + kIndexFile);
  } else if (find(listing, kSingleFile) != nullptr) {
    weights = {kSingleFile};
  } else {
    fail_without_weights(listing, repository);
  }
  for (const std::string& path : weights) {
    const RemoteFile* file = find(listing, path);
    if (file == nullptr) {
      fail_file("{}: {} names the file {}, which the repository does not have; nothing is downloaded",
                repository, kIndexFile, in_quotes(path));
    }
    selected.push_back(*file);
  }
  return selected;
}

PlannedFile look_up(const CachedRepository& repository, const std::string& commit, const RemoteFile& file) {
  const fs::path link = repository.snapshot(commit) / file.path;
  std::error_code ignored;
  const bool linked = fs::is_symlink(link, ignored);
  // A link must lead to this very blob; where there are no links, the file itself stands there.
  const bool right = linked ? fs::path(fs::read_symlink(link, ignored)).filename() == file.etag : true;
  if (right && has_size(link, file.size)) return {file, FileState::kThere, file.size};
  if (has_size(repository.blob(file.etag), file.size)) return {file, FileState::kUnlinked, file.size};
  const uint64_t partial = partial_bytes(repository.blob(file.etag), file);
  return {file, partial > 0 ? FileState::kPartial : FileState::kMissing, partial};
}

}  // namespace slip::hub
