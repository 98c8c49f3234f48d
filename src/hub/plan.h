// What a pull would do, before it does it: files with sizes, what is there, what is missing, how much disk it
// takes. Plain data for a command to print; the same data drives the pull.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hub/cache.h"
#include "hub/listing.h"
#include "hub/names.h"

namespace slip::hub {

enum class FileState {
  kThere,     // in its place
  kUnlinked,  // its bytes are there, under another name or for another commit
  kPartial,   // an earlier run left some of it
  kMissing,
};

struct PlannedFile {
  RemoteFile file;
  FileState state = FileState::kMissing;
  uint64_t there = 0;  // bytes that need not be fetched
};

struct PlannedRepository {
  std::string repository;
  std::string revision;  // as asked for: "main"
  std::string commit;
  std::string licence;
  bool gated = false;
  bool moved = false;  // the cache has an older commit of this revision
  std::vector<PlannedFile> files;

  uint64_t total() const;
  uint64_t there() const;
  bool complete() const { return there() == total() && !needs_links(); }
  bool needs_links() const;
};

struct Plan {
  PlannedRepository model;
  std::optional<PlannedRepository> drafter;
  bool is_drafter = false;   // the repository is an assistant or a DFlash drafter itself
  std::string drafter_note;  // why there is none; "" when there is
  std::string cache;         // the folder it all goes to
  std::string folder;        // of the model's snapshot: what -m finds afterwards
  uint64_t free_disk = 0;
  // The row of the table that names a smaller copy of the same model, for a machine this one does not fit.
  const NamedModel* smaller = nullptr;
  bool offline = false;  // made from the cache alone; `offline_reason` says why
  std::string offline_reason;

  uint64_t total() const;
  uint64_t there() const;
  uint64_t missing() const { return total() - there(); }
  bool complete() const { return model.complete() && (!drafter || drafter->complete()); }
};

/// Which drafter a plan has.
enum class DrafterChoice {
  kAuto,  // the assistant; where none is published, the DFlash drafter
  kAssistant,
  kDflash,
  kNone,
};

enum class Part { kModel, kDrafter };

/// The files of a repository that slipstream reads, in the order they are fetched: small ones, then weights.
/// `index` is the text of model.safetensors.index.json when the listing has it. Throws Error(kBadFile) when a
/// file is missing that the model cannot do without, or when there are no safetensors.
std::vector<RemoteFile> select_files(const std::vector<RemoteFile>& listing,
                                     const std::optional<std::string>& index, const std::string& repository,
                                     Part part);

/// What of a file is in the cache already.
PlannedFile look_up(const CachedRepository& repository, const std::string& commit, const RemoteFile& file);

}  // namespace slip::hub
