// Where things are in Hugging Face's cache, which we share with its own tools: names of folders, references,
// blobs, links and locks, exactly as its client lays them out, and reading them. Nothing here writes.
//
//   models--ORG--NAME/blobs/<etag>                    a file's bytes, named by their hash
//   models--ORG--NAME/snapshots/<commit>/<path>       a relative link to its blob
//   models--ORG--NAME/refs/<revision>                 the commit, 40 hexadecimal digits, no line end
//   .locks/models--ORG--NAME/<etag>.lock              held while a blob is written
//   models--ORG--NAME/blobs/<etag>.slipstream[.map]   ours: a file on its way (partial.h)
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace slip::hub {

namespace fs = std::filesystem;

inline constexpr std::string_view kPartialSuffix = ".slipstream";
inline constexpr std::string_view kMapSuffix = ".slipstream.map";

bool is_commit(std::string_view text);  // 40 lower-case hexadecimal digits
bool is_sha256(std::string_view text);  // 64 of them

/// One repository of the cache.
class CachedRepository {
 public:
  CachedRepository(fs::path cache, std::string name);

  const std::string& name() const { return name_; }  // "google/gemma-4-E2B-it"
  const fs::path& folder() const { return folder_; }
  fs::path blobs() const { return folder_ / "blobs"; }
  fs::path blob(const std::string& etag) const { return blobs() / etag; }
  fs::path snapshots() const { return folder_ / "snapshots"; }
  fs::path snapshot(const std::string& commit) const { return snapshots() / commit; }
  fs::path reference(const std::string& revision) const { return folder_ / "refs" / revision; }
  fs::path locks() const { return locks_; }

  /// The commit a revision stands for, by what the cache says; nothing when it does not know the revision.
  std::optional<std::string> commit_of(const std::string& revision) const;
  /// The commit to use when no revision was given: main, or the newest snapshot of a cache without
  /// references.
  std::optional<std::string> current_commit() const;

 private:
  std::string name_;
  fs::path folder_;
  fs::path locks_;
};

/// "models--google--gemma-4-E2B-it" -> "google/gemma-4-E2B-it"; empty for other folders.
std::string repository_of(const fs::path& folder);

/// All repositories of models, by name. An absent or unreadable cache has none.
std::vector<CachedRepository> list_repositories(const fs::path& cache);

/// The link that snapshots/<commit>/<path> must be: "../../../blobs/<etag>" for "a/b.json".
std::string link_target(const std::string& path, const std::string& etag);

}  // namespace slip::hub
