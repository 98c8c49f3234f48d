// Files from the hub into their blobs: several connections at once, pieces in order, a hash that follows the
// connections, and resuming from what an earlier run marked as there.
//
// - Pieces of at most 16 MiB go to connections in the order of the file, so the hash can follow; at most 128
//   MiB are taken ahead of it.
// - At most 4 MiB a connection are received and not yet marked as synced. A connection waits rather than
//   exceed it, so that little is fetched twice whenever and however a run ends.
// - A file gets its name only after its hash was right and its bytes were synced.
//
// Cost: one receive buffer per connection and one for the hash; the bytes live in the page cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "hub/api.h"
#include "hub/files.h"
#include "hub/listener.h"
#include "hub/partial.h"

namespace slip::hub {

struct DownloadOptions {
  int connections = 8;
};

struct DownloadFile {
  std::string repository, commit;
  RemoteFile file;
  fs::path stem;    // of the partial file, "<blobs>/<etag>"
  fs::path target;  // the blob, or the file itself where there are no links
  /// Called on a thread of its own once the target is there.
  std::function<void()> placed;
};

/// Downloads all of them. Throws Error; what was marked stays for the next run.
void download(Api& api, Files& files, const std::vector<DownloadFile>& wanted, const DownloadOptions& options,
              Listener& listener);

}  // namespace slip::hub
