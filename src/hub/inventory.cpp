#include "hub/inventory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/draft_kind.h"
#include "checkpoint/json_text.h"
#include "checkpoint/limits.h"
#include "checkpoint/quantization.h"
#include "hub/weight_index.h"

namespace slip::hub {
namespace {

using checkpoint::in_quotes;
using checkpoint::JsonObject;

constexpr size_t kMostFiles = 100000;

struct FileInfo {
  bool there = false;
  uint64_t size = 0;
  uint64_t disk = 0;  // what it takes; less for a file with holes
  int64_t last_used = 0;
};

FileInfo look_at(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  return {true, static_cast<uint64_t>(info.st_size), static_cast<uint64_t>(info.st_blocks) * 512,
          std::max(info.st_atim.tv_sec, info.st_mtim.tv_sec)};
}

/// Names in a folder, links and all; an unreadable one has none.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void add_files(const fs::path& root, const fs::path& folder, std::vector<CachedFile>& files) {
  std::error_code ignored;
  for (const std::string& name : names_in(folder)) {
    const fs::path path = folder / name;
    const bool link = fs::is_symlink(path, ignored);
    if (!link && fs::is_directory(path, ignored)) {
      add_files(root, path, files);
      continue;
    }
    if (files.size() >= kMostFiles) return;
    const FileInfo info = look_at(path);
    const std::string blob = link ? fs::read_symlink(path, ignored).filename().string() : "";
    files.push_back({path.lexically_relative(root).string(), info.size, blob, info.there});
  }
}

/// refs/ of a repository: commit -> revisions that stand for it.
std::map<std::string, std::vector<std::string>> references_of(const CachedRepository& repository) {
  std::map<std::string, std::vector<std::string>> references;
  const fs::path root = repository.folder() / "refs";
  std::error_code error;
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_regular_file(ignored)) continue;
    const std::string revision = at->path().lexically_relative(root).string();
    if (const auto commit = repository.commit_of(revision)) references[*commit].push_back(revision);
  }
  return references;
}

std::vector<CachedCommit> commits_of(const CachedRepository& repository) {
  auto references = references_of(repository);
  std::vector<CachedCommit> commits;
  for (const std::string& name : names_in(repository.snapshots())) {
    std::error_code ignored;
    if (!fs::is_directory(repository.snapshot(name), ignored)) continue;
    CachedCommit commit{name, references[name], {}};
    add_files(repository.snapshot(name), repository.snapshot(name), commit.files);
    commits.push_back(std::move(commit));
  }
  return commits;
}

/// What config.json says of a model, as far as a list shows it. A damaged one says nothing.
void describe(const fs::path& folder, ListedModel& listed) {
  const fs::path path = folder / kConfigFile;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  try {
    const auto document =
        checkpoint::parse_json(read_text_file(path.string(), checkpoint::kLargestConfig), path.string());
    const JsonObject config(document, path.string());
    switch (checkpoint::kind_of_config(config)) {
      case checkpoint::DraftKind::kTarget: listed.kind = ModelKind::kModel; break;
      case checkpoint::DraftKind::kAssistant: listed.kind = ModelKind::kAssistant; break;
      case checkpoint::DraftKind::kDflash: listed.kind = ModelKind::kDflash; break;
      case checkpoint::DraftKind::kUnknown: return;
    }
    listed.vision = config.has("vision_config");
    listed.audio = config.has("audio_config");
    const auto text = config.object("text_config");
    std::string type = config.text("dtype").value_or(config.text("torch_dtype").value_or(""));
    if (type.empty() && text) type = text->text("dtype").value_or(text->text("torch_dtype").value_or(""));
    if (type == "bfloat16" || type == "float16") listed.bits = 16;
    if (type == "float32") listed.bits = 32;
    if (const auto table = config.object("quantization")) {
      if (const auto bits = table->integer("bits", 1, 16)) listed.bits = static_cast<int>(*bits);
    }
  } catch (const Error&) {
    // show and list describe what they can; opening the model names the fault
  }
}

ListedModel listed_of(const CachedRepository& repository, const Environment& environment) {
  ListedModel listed;
  listed.repository = repository.name();
  listed.commits = commits_of(repository);
  for (const std::string& name : names_in(repository.blobs())) {
    const FileInfo info = look_at(repository.blob(name));
    const bool partial = name.find(kPartialSuffix) != std::string::npos || name.ends_with(".incomplete");
    listed.bytes += partial ? info.disk : info.size;
    if (partial) listed.partial_bytes += info.disk;
    listed.last_used = std::max(listed.last_used, info.last_used);
  }
  for (const CachedCommit& commit : listed.commits) {
    for (const CachedFile& file : commit.files) {
      if (file.blob.empty()) listed.bytes += file.size;  // no links on this file system
    }
  }
  if (const auto commit = repository.current_commit()) {
    listed.commit = *commit;
    listed.folder = repository.snapshot(*commit).string();
    listed.missing = missing_files(listed.folder);
    describe(listed.folder, listed);
    if (listed.kind == ModelKind::kModel) listed.drafter = find_assistant(listed.folder, environment);
  }
  return listed;
}

CachedRepository find_repository(const ModelName& name, const Environment& environment) {
  ModelName any = name;
  any.revision.clear();
  const LocalModel local = find_local(any, environment);
  CachedRepository repository(environment.cache, local.repository);
  std::error_code ignored;
  if (!environment.cache.empty() && fs::is_directory(repository.folder(), ignored)) return repository;
  std::vector<std::string> names;
  for (const CachedRepository& other : list_repositories(environment.cache)) names.push_back(other.name());
  fail_file("the cache ({}) has no model {}; 'slipstream list' shows what it has", environment.cache,
            in_quotes(name.repository));
}

std::string whole_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool is_number(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

using Inodes = std::set<std::pair<uint64_t, uint64_t>>;

/// Whether one of a process's open files is one of these.
bool has_open(const fs::path& process, const Inodes& wanted) {
  for (const std::string& name : names_in(process / "fd")) {
    struct stat info {};
    if (::stat((process / "fd" / name).c_str(), &info) != 0) continue;
    if (wanted.contains({info.st_dev, info.st_ino})) return true;
  }
  return false;
}

/// The same for its mappings, which outlive the descriptor they came from.
bool has_mapped(const fs::path& process, const Inodes& wanted) {
  std::istringstream lines(whole_text(process / "maps"));
  for (std::string line; std::getline(lines, line);) {
    // "7f12-7f34 r--p 00000000 08:01 1234   /path"
    std::istringstream words(line);
    std::string range, mode, offset, device;
    uint64_t inode = 0;
    if (!(words >> range >> mode >> offset >> device >> inode) || inode == 0) continue;
    const bool same =
        std::any_of(wanted.begin(), wanted.end(), [&](const auto& file) { return file.second == inode; });
    if (!same) continue;
    std::string path;
    std::getline(words >> std::ws, path);
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0 && wanted.contains({info.st_dev, info.st_ino})) return true;
  }
  return false;
}

}  // namespace

std::vector<ListedModel> list_models(const Environment& environment) {
  std::vector<ListedModel> models;
  if (environment.cache.empty()) return models;
  for (const CachedRepository& repository : list_repositories(environment.cache)) {
    models.push_back(listed_of(repository, environment));
  }
  return models;
}

ListedModel show_model(const ModelName& name, const Environment& environment) {
  return listed_of(find_repository(name, environment), environment);
}

std::string process_using(const std::vector<fs::path>& paths) {
  Inodes wanted;
  for (const fs::path& path : paths) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) wanted.insert({info.st_dev, info.st_ino});
  }
  if (wanted.empty()) return "";
  const std::string own = std::to_string(::getpid());
  for (const std::string& name : names_in("/proc")) {
    if (!is_number(name) || name == own) continue;
    const fs::path process = fs::path("/proc") / name;
    if (!has_open(process, wanted) && !has_mapped(process, wanted)) continue;
    std::string command = whole_text(process / "comm");
    while (!command.empty() && static_cast<unsigned char>(command.back()) <= ' ') command.pop_back();
    return fmt::format("{} (process {})", command, name);
  }
  return "";
}

Removal plan_removal(const ModelName& name, const Environment& environment) {
  const CachedRepository repository = find_repository(name, environment);
  Removal removal;
  removal.repository = repository.name();
  const auto commits = commits_of(repository);
  std::string only;
  if (!name.revision.empty()) {
    const auto commit = repository.commit_of(name.revision);
    if (!commit) {
      fail_file("the cache has no revision {} of {}", in_quotes(name.revision), repository.name());
    }
    only = *commit;
  }
  std::set<std::string> going, staying;
  for (const CachedCommit& commit : commits) {
    const bool goes = only.empty() || commit.commit == only;
    if (goes) removal.commits.push_back(commit.commit);
    for (const CachedFile& file : commit.files) {
      if (!file.blob.empty()) (goes ? going : staying).insert(file.blob);
      if (goes && file.blob.empty()) removal.freed += file.size;
    }
  }
  removal.whole = removal.commits.size() == commits.size();
  std::vector<fs::path> files;
  for (const std::string& blob : names_in(repository.blobs())) {
    const bool goes = removal.whole || (going.contains(blob) && !staying.contains(blob));
    const fs::path path = repository.blob(blob);
    std::error_code ignored;
    // A link leads to a store that other repositories share: only the link goes, which frees nothing.
    const uint64_t bytes = fs::is_symlink(path, ignored) ? 0 : look_at(path).disk;
    if (goes) {
      removal.blobs.push_back(blob);
      removal.freed += bytes;
      files.push_back(path);
    } else if (going.contains(blob)) {
      removal.kept += bytes;
    }
  }
  for (const CachedCommit& commit : commits) {
    if (!only.empty() && commit.commit != only) continue;
    for (const CachedFile& file : commit.files) {
      if (file.blob.empty()) files.push_back(repository.snapshot(commit.commit) / file.path);
    }
  }
  removal.in_use = process_using(files);
  return removal;
}

void remove(const Removal& removal, const Environment& environment, Files& files) {
  const CachedRepository repository(environment.cache, removal.repository);
  if (!removal.in_use.empty()) {
    fail(ErrorKind::kRuntime, "{} is in use by {}; end it first", removal.repository, removal.in_use);
  }
  files.make_folders(repository.locks());
  const LockAttempt lock = files.try_lock(repository.locks() / "slipstream.lock");
  if (lock.state == LockState::kTaken) {
    fail(ErrorKind::kRuntime, "a pull of {} is under way; end it first", removal.repository);
  }
  // From what people see to what lies beneath, so that an interruption leaves no link that leads nowhere.
  const auto references = references_of(repository);
  for (const std::string& commit : removal.commits) {
    if (const auto at = references.find(commit); at != references.end()) {
      for (const std::string& revision : at->second) files.remove(repository.reference(revision));
    }
  }
  for (const std::string& commit : removal.commits) {
    files.remove_all(repository.snapshot(commit));
    files.remove_all(repository.folder() / ".no_exist" / commit);
    files.remove(repository.folder() / "trees" / (commit + ".json"));
  }
  for (const std::string& blob : removal.blobs) files.remove(repository.blob(blob));
  if (removal.whole) {
    files.remove_all(repository.folder());
    files.remove_all(repository.locks());
  }
}

}  // namespace slip::hub
