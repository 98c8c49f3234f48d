// What the cache holds, whoever put it there, and taking it away again. Reading is free of side effects;
// remove() deletes a repository's commits and those of its blobs that no other commit uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hub/api.h"
#include "hub/cache.h"
#include "hub/environment.h"
#include "hub/files.h"
#include "hub/local.h"

namespace slip::hub {

enum class ModelKind { kModel, kAssistant, kDflash, kOther };

struct CachedFile {
  std::string path;
  uint64_t size = 0;
  std::string blob;    // its etag; "" where the file stands in the snapshot itself
  bool there = false;  // false = a link that leads nowhere
};

struct CachedCommit {
  std::string commit;
  std::vector<std::string> revisions;  // that stand for it: "main"
  std::vector<CachedFile> files;
};

/// A repository of the cache, for `list` and `show`.
struct ListedModel {
  std::string repository;
  std::string folder;  // of the current snapshot; "" when there is none
  std::string commit;
  ModelKind kind = ModelKind::kOther;
  std::optional<int> bits;  // of the weights, by config.json
  uint64_t bytes = 0;       // on this disk, each blob once, parts of unfinished downloads included
  uint64_t partial_bytes = 0;
  std::string drafter;  // the folder find_assistant() finds; "" = none
  bool vision = false, audio = false;
  int64_t last_used = 0;  // seconds since 1970; 0 = not known
  std::vector<std::string> missing;
  std::vector<CachedCommit> commits;
};

std::vector<ListedModel> list_models(const Environment& environment);
/// Throws Error(kBadFile) when the cache does not have it.
ListedModel show_model(const ModelName& name, const Environment& environment);

/// What remove() would do.
struct Removal {
  std::string repository;
  std::vector<std::string> commits;  // that go
  std::vector<std::string> blobs;    // etags that go with them
  uint64_t freed = 0;
  uint64_t kept = 0;   // bytes of blobs that other commits use
  bool whole = false;  // nothing of the repository is left
  std::string in_use;  // who has it open: "slipstream (process 812)"; "" = nobody
};

/// The whole repository, or with a revision in the name only that commit.
Removal plan_removal(const ModelName& name, const Environment& environment);
/// Throws Error(kRuntime) when a process has it open or a pull is under way.
void remove(const Removal& removal, const Environment& environment, Files& files = real_files());

/// A process other than this one that has the file mapped or open: "slipstream (process 812)"; "" = none that
/// we may look into.
std::string process_using(const std::vector<fs::path>& paths);

}  // namespace slip::hub
