#include "hub/placing.h"

#include <fmt/format.h>

#include <map>
#include <random>

#include "base/error.h"
#include "base/mapped_file.h"

namespace slip::hub {
namespace {

constexpr auto kLockPause = std::chrono::milliseconds(100);
constexpr const char* kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder is a cache: backups may leave it out (see https://bford.info/cachedir/).\n";

std::string text_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  try {
    return read_text_file(path.string(), 4096);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

Placing::Placing(Api& api, Files& files, const PlannedRepository& plan, Listener& listener)
    : api_(api),
      files_(files),
      plan_(plan),
      listener_(listener),
      repository_(api.environment().cache, plan.repository) {}

Placing::~Placing() {
  try {
    for (const fs::path& stem : own_stems_) {
      files_.remove(stem.string() + std::string(kMapSuffix));
      files_.remove(stem.string() + std::string(kPartialSuffix));
    }
    if (begun_ && !finished_) remove_empty_folders();
  } catch (const Error&) {
    // A left-over file is harmless, and something else is being reported already.
  }
}

/// After a pull that ended before anything of the model came: a repository without a file is one to nobody.
void Placing::remove_empty_folders() {
  std::vector<fs::path> folders{repository_.folder()};
  std::error_code error;
  for (fs::recursive_directory_iterator at(repository_.folder(), error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (at->is_symlink(ignored) || !at->is_directory(ignored)) return;
    folders.push_back(at->path());
  }
  for (auto at = folders.rbegin(); at != folders.rend(); ++at) files_.remove_empty(*at);
}

LockAttempt Placing::wait_for_lock(const fs::path& path, const std::string& what) {
  bool said = false;
  for (;;) {
    LockAttempt attempt = files_.try_lock(path);
    if (attempt.state != LockState::kTaken) return attempt;
    if (!std::exchange(said, true)) listener_.on_notice(what);
    api_.check_cancelled();
    api_.client().poll(kLockPause);
  }
}

bool Placing::probe_links() {
  if (!api_.environment().use_links) return false;
  const fs::path probe = repository_.folder() / ".slipstream-link";
  const bool works = files_.link("blobs", probe);
  if (works) files_.remove(probe);
  return works;
}

void Placing::place(const RemoteFile& file) {
  const fs::path path = path_of(file);
  files_.make_folders(path.parent_path());
  if (use_links_) {
    files_.link(link_target(file.path, file.etag), path);
  } else {
    files_.copy(repository_.blob(file.etag), path);
  }
  files_.sync_folder(path.parent_path());
}

/// What a run that ended between the last two steps of publishing left beside the blob.
void Placing::sweep(const RemoteFile& file) {
  const std::string stem = repository_.blob(file.etag).string();
  std::error_code ignored;
  for (const std::string_view suffix : {kMapSuffix, kPartialSuffix}) {
    const fs::path path = stem + std::string(suffix);
    if (fs::exists(path, ignored)) files_.remove(path);
  }
}

std::vector<DownloadFile> Placing::begin() {
  const fs::path cache = api_.environment().cache;
  std::error_code ignored;
  if (!fs::exists(cache, ignored)) {
    files_.make_folders(cache);
    write_atomically(files_, cache / "CACHEDIR.TAG", kCacheTag);
  }
  files_.make_folders(repository_.locks());
  LockAttempt own =
      wait_for_lock(repository_.locks() / "slipstream.lock",
                    fmt::format("another pull of {} is under way; waiting for it to end", plan_.repository));
  const bool locked = own.state == LockState::kHeld;
  if (locked) locks_.push_back(std::move(own.lock));
  begun_ = true;
  files_.make_folders(repository_.blobs());
  files_.make_folders(repository_.snapshot(plan_.commit));
  files_.make_folders(repository_.folder() / "refs");  // scanners miss it, even while it is empty
  use_links_ = probe_links();

  std::map<std::string, DownloadFile> wanted;  // by etag: two paths may hold the same bytes
  std::vector<std::string> order;
  for (const PlannedFile& planned : plan_.files) {
    const RemoteFile& file = planned.file;
    if (wanted.contains(file.etag)) continue;
    if (look_up(repository_, plan_.commit, file).state != FileState::kThere && locked) {
      // Hugging Face's client holds this one while it writes the blob.
      LockAttempt blob =
          wait_for_lock(repository_.locks() / (file.etag + ".lock"),
                        fmt::format("another program downloads {} of {}; waiting for it to end", file.path,
                                    plan_.repository));
      if (blob.state == LockState::kHeld) locks_.push_back(std::move(blob.lock));
    }
    const FileState state = look_up(repository_, plan_.commit, file).state;
    if (state == FileState::kThere || state == FileState::kUnlinked) sweep(file);
    if (state == FileState::kThere) continue;
    if (state == FileState::kUnlinked) {
      place(file);
      continue;
    }
    fs::path stem = repository_.blob(file.etag);
    if (!locked) {
      stem += fmt::format(".{:08x}", std::random_device()());
      own_stems_.push_back(stem);
    }
    fs::path target = repository_.blob(file.etag);
    if (!use_links_) {
      target = path_of(file);
      files_.make_folders(target.parent_path());
    }
    DownloadFile download{plan_.repository, plan_.commit, file, std::move(stem), std::move(target), {}};
    if (use_links_) download.placed = [this, &file] { place(file); };
    wanted.emplace(file.etag, std::move(download));
    order.push_back(file.etag);
  }
  std::vector<DownloadFile> downloads;
  for (const std::string& etag : order) downloads.push_back(std::move(wanted.at(etag)));
  return downloads;
}

void Placing::finish() {
  std::map<std::string, fs::path> placed;  // where there are no links
  for (const PlannedFile& planned : plan_.files) {
    const RemoteFile& file = planned.file;
    const FileState state = look_up(repository_, plan_.commit, file).state;
    if (state == FileState::kThere) {
      placed.emplace(file.etag, path_of(file));
    } else if (state == FileState::kUnlinked) {
      place(file);
    } else if (const auto twin = placed.find(file.etag); twin != placed.end()) {
      files_.make_folders(path_of(file).parent_path());
      files_.copy(twin->second, path_of(file));
    } else {
      fail(ErrorKind::kRuntime, "{}: {} is gone from the cache again; does another program clean it up?",
           plan_.repository, file.path);
    }
  }
  own_stems_.clear();
  finished_ = true;
  files_.sync_folder(repository_.blobs());  // that maps are gone
  if (is_commit(plan_.revision)) return;
  const fs::path reference = repository_.reference(plan_.revision);
  if (text_of(reference) == plan_.commit) return;
  files_.make_folders(reference.parent_path());
  write_atomically(files_, reference, plan_.commit);
}

}  // namespace slip::hub
