#include "hub/cache.h"

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"

namespace slip::hub {
namespace {

constexpr std::string_view kModels = "models--";
constexpr size_t kLongestReference = 4096;

bool is_hex(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

std::string folder_name(std::string name) {
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return std::string(kModels) + name;
}

/// What a file of refs/ says. Other programs are careless: a line end is forgiven, anything else is not.
std::string read_reference(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  std::string commit;
  try {
    commit = read_text_file(path.string(), kLongestReference);
  } catch (const Error&) {
    return "";  // unreadable, or no reference at all: as if it were not there
  }
  while (!commit.empty() && static_cast<unsigned char>(commit.back()) <= ' ') commit.pop_back();
  return is_hex(commit) && commit.size() <= 64 ? commit : "";
}

}  // namespace

bool is_commit(std::string_view text) {
  return text.size() == 40 && is_hex(text);
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && is_hex(text);
}

CachedRepository::CachedRepository(fs::path cache, std::string name)
    : name_(std::move(name)),
      folder_(cache / folder_name(name_)),
      locks_(cache / ".locks" / folder_name(name_)) {}

std::optional<std::string> CachedRepository::commit_of(const std::string& revision) const {
  std::error_code ignored;
  if (is_commit(revision)) {
    if (fs::is_directory(snapshot(revision), ignored)) return revision;
    return std::nullopt;
  }
  const std::string commit = read_reference(reference(revision));
  if (commit.empty() || !fs::is_directory(snapshot(commit), ignored)) return std::nullopt;
  return commit;
}

std::optional<std::string> CachedRepository::current_commit() const {
  if (auto commit = commit_of("main")) return commit;
  std::error_code ignored;
  std::string newest;
  fs::file_time_type newest_time;
  for (const auto& entry : fs::directory_iterator(snapshots(), ignored)) {
    if (!entry.is_directory(ignored)) continue;
    const auto time = entry.last_write_time(ignored);
    if (newest.empty() || time > newest_time) {
      newest = entry.path().filename().string();
      newest_time = time;
    }
  }
  if (newest.empty()) return std::nullopt;
  return newest;
}

std::string repository_of(const fs::path& folder) {
  std::string name = folder.filename().string();
  if (!name.starts_with(kModels)) return "";
  name.erase(0, kModels.size());
  if (const size_t dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
  return name;
}

std::vector<CachedRepository> list_repositories(const fs::path& cache) {
  std::vector<CachedRepository> repositories;
  std::error_code error;
  for (fs::directory_iterator at(cache, error), end; !error && at != end; at.increment(error)) {
    if (std::string name = repository_of(at->path()); !name.empty()) repositories.emplace_back(cache, name);
  }
  std::sort(repositories.begin(), repositories.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  return repositories;
}

std::string link_target(const std::string& path, const std::string& etag) {
  std::string target = "../../";
  for (const char c : path) {
    if (c == '/') target += "../";
  }
  return target + "blobs/" + etag;
}

}  // namespace slip::hub
