// Putting files where Hugging Face's cache has them: blobs, links to them, references, and the locks that are
// held meanwhile. Where the file system has no links, the files themselves stand in the snapshot.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hub/api.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/files.h"
#include "hub/plan.h"

namespace slip::hub {

/// One repository while a pull works on it: holds its lock from begin() on.
class Placing {
 public:
  Placing(Api& api, Files& files, const PlannedRepository& plan, Listener& listener);
  ~Placing();

  /// Makes the folders, takes the locks (waiting for whoever has them), links what is there already, and
  /// returns what must be downloaded.
  std::vector<DownloadFile> begin();
  /// Everything is there: links that are still missing, then the reference.
  void finish();

 private:
  LockAttempt wait_for_lock(const fs::path& path, const std::string& what);
  void place(const RemoteFile& file);
  void sweep(const RemoteFile& file);
  void remove_empty_folders();
  bool probe_links();
  fs::path path_of(const RemoteFile& file) const { return repository_.snapshot(plan_.commit) / file.path; }

  Api& api_;
  Files& files_;
  const PlannedRepository& plan_;
  Listener& listener_;
  const CachedRepository repository_;
  std::vector<std::unique_ptr<Lock>> locks_;
  std::vector<fs::path> own_stems_;  // of partial files that no other run will find
  bool use_links_ = true, begun_ = false, finished_ = false;
};

}  // namespace slip::hub
