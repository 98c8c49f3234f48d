#include "hub/hub.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/human.h"
#include "base/mapped_file.h"
#include "checkpoint/json_text.h"
#include "hub/download.h"
#include "hub/placing.h"
#include "hub/weight_index.h"

namespace slip::hub {
namespace {

using checkpoint::in_quotes;

constexpr uint64_t kFirstRange = uint64_t{512} << 10;
constexpr uint64_t kLongestHeader = 100'000'000;
constexpr size_t kLengthBytes = 8;
constexpr size_t kMostShown = 5;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

bool ends_like_drafter(const std::string& repository) {
  const std::string name = lower(repository);
  return name.find("-assistant") != std::string::npos || name.find("-dflash") != std::string::npos;
}

/// Where the header of a safetensors file ends, by its first bytes; nothing when it is none.
std::optional<uint64_t> header_end(std::string_view start, uint64_t file_size) {
  if (start.size() < kLengthBytes || file_size < kLengthBytes) return std::nullopt;
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>(static_cast<unsigned char>(start[i])) << (8 * i);
  }
  if (length > kLongestHeader || length > file_size - kLengthBytes) return std::nullopt;
  return kLengthBytes + length;
}

std::string read_part(const fs::path& path, net::ByteRange range) {
  std::string text(range.end - range.begin, '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(range.begin));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.flush()) fail(ErrorKind::kRuntime, "{}: cannot be written", path.string());
}

}  // namespace

class Hub::Impl {
 public:
  explicit Impl(HubOptions given)
      : options(std::move(given)),
        client(options.client),
        api({client, options.environment, options.cancel, [this](const std::string& text) { tell(text); }}) {}

  void tell(const std::string& text) {
    if (listener != nullptr) {
      listener->on_notice(text);
    } else if (options.notice) {
      options.notice(text);
    }
  }
  CachedRepository cached(const std::string& repository) const {
    return {options.environment.cache, repository};
  }

  std::string repository_for(const ModelName& name, const LocalModel& local) const;
  PlannedRepository plan_repository(const std::string& repository, const std::string& revision, Part part,
                                    Patience patience);
  void plan_drafter(Plan& plan, DrafterChoice choice);
  bool plan_drafter_from(const std::string& repository, Plan& plan);
  Plan plan_from_cache(const LocalModel& local, const ModelName& name, std::string reason);
  [[noreturn]] void fail_with_suggestions(const Error& error, const std::string& repository) const;
  std::string on_disk(const LocalModel& local) const;
  std::string read_small(const std::string& repository, const std::string& commit, const RemoteFile& file);
  RemoteHeader read_header(const PlannedRepository& repository, const PlannedFile& file);
  uint64_t needed_disk(const Plan& plan) const;

  HubOptions options;
  net::HttpClient client;
  Api api;
  Listener* listener = nullptr;
  std::map<std::string, std::string> texts;  // small files read for the plan, by etag
};

std::string Hub::Impl::repository_for(const ModelName& name, const LocalModel& local) const {
  if (local.repository.find('/') != std::string::npos) return local.repository;
  std::vector<std::string> names;
  for (const CachedRepository& repository : list_repositories(options.environment.cache)) {
    names.push_back(repository.name());
  }
  const auto similar = similar_names(name.repository, names);
  if (!similar.empty()) {
    fail_file("no model is called {}; did you mean {}?", in_quotes(name.repository),
              fmt::join(similar, " or "));
  }
  fail_file("no model is called {}; give user/name, or a name of docs/models.md such as gemma-4-e2b",
            in_quotes(name.repository));
}

void Hub::Impl::fail_with_suggestions(const Error& error, const std::string& repository) const {
  std::string text = error.what();
  const auto similar = similar_names(repository, {});
  const bool known = find_by_repository(repository) != nullptr;
  const bool about_name = text.find("no model ") == 0;
  if (!known && about_name && !similar.empty())
    text += fmt::format("; did you mean {}?", fmt::join(similar, " or "));
  throw Error(error.kind(), text);
}

std::string Hub::Impl::on_disk(const LocalModel& local) const {
  if (local.presence == Presence::kPartial) {
    return fmt::format("in the cache {} lacks {}", local.repository, fmt::join(local.missing, ", "));
  }
  std::vector<std::string> names;
  for (const CachedRepository& repository : list_repositories(options.environment.cache)) {
    const auto commit = repository.current_commit();
    if (commit && missing_files(repository.snapshot(*commit).string()).empty())
      names.push_back(repository.name());
  }
  if (names.empty()) return "the cache holds no complete model";
  const size_t more = names.size() - std::min(names.size(), kMostShown);
  names.resize(std::min(names.size(), kMostShown));
  return fmt::format("the cache holds {}{}", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string Hub::Impl::read_small(const std::string& repository, const std::string& commit,
                                  const RemoteFile& file) {
  if (const auto known = texts.find(file.etag); known != texts.end()) return known->second;
  const CachedRepository folder = cached(repository);
  const PlannedFile planned = look_up(folder, commit, file);
  std::string text;
  if (planned.state == FileState::kThere) {
    text = read_text_file((folder.snapshot(commit) / file.path).string());
  } else if (planned.state == FileState::kUnlinked) {
    text = read_text_file(folder.blob(file.etag).string());
  } else {
    text = api.read_file(repository, commit, file);
  }
  return texts.emplace(file.etag, std::move(text)).first->second;
}

PlannedRepository Hub::Impl::plan_repository(const std::string& typed, const std::string& revision, Part part,
                                             Patience patience) {
  const RepositoryInfo info = api.info(typed, revision, patience);
  PlannedRepository planned;
  // The hub's own spelling; but a repository that was renamed stays under the name people know.
  planned.repository = lower(info.id) == lower(typed) ? info.id : typed;
  std::error_code ignored;
  if (fs::is_directory(cached(typed).folder(), ignored)) planned.repository = typed;
  planned.revision = revision;
  planned.commit = info.commit;
  planned.licence = info.licence;
  planned.gated = info.gated;
  const auto listing = api.tree(planned.repository, info.commit);
  std::optional<std::string> index;
  for (const RemoteFile& file : listing) {
    if (file.path == kIndexFile) index = read_small(planned.repository, info.commit, file);
  }
  const CachedRepository folder = cached(planned.repository);
  for (const RemoteFile& file : select_files(listing, index, planned.repository, part)) {
    planned.files.push_back(look_up(folder, info.commit, file));
  }
  const auto before = folder.commit_of(revision);
  planned.moved = before && *before != info.commit;
  return planned;
}

/// False when the hub does not have it. The model works without it, so that is only told.
bool Hub::Impl::plan_drafter_from(const std::string& repository, Plan& plan) {
  try {
    plan.drafter = plan_repository(repository, "main", Part::kDrafter, Patience::kUsual);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadFile) throw;
    return false;
  }
}

void Hub::Impl::plan_drafter(Plan& plan, DrafterChoice choice) {
  const std::string& model = plan.model.repository;
  plan.is_drafter = ends_like_drafter(model);
  if (choice == DrafterChoice::kNone) return;
  if (plan.is_drafter) {
    plan.drafter_note = "it is a drafter itself";
    return;
  }
  const std::string dflash = dflash_repository(model);
  if (choice != DrafterChoice::kDflash) {
    std::string wanted = assistant_repository(model);
    const std::string found = find_assistant(model, options.environment);
    const std::string here = found.empty() ? "" : repository_of(fs::path(found).parent_path().parent_path());
    if (!here.empty() && lower(here) != lower(wanted) && missing_files(found).empty()) {
      plan.drafter_note = fmt::format("{} is in the cache already", here);
      return;
    }
    if (wanted.empty()) wanted = here.empty() ? model + "-assistant" : here;
    if (plan_drafter_from(wanted, plan)) return;
    if (choice == DrafterChoice::kAssistant || dflash.empty()) {
      plan.drafter_note = "none is published for it";
      return;
    }
  }
  if (dflash.empty() || !plan_drafter_from(dflash, plan))
    plan.drafter_note = "no DFlash drafter is published for it";
}

Plan Hub::Impl::plan_from_cache(const LocalModel& local, const ModelName& name, std::string reason) {
  if (local.presence != Presence::kComplete) {
    fail(ErrorKind::kRuntime, "{}; {}", reason, on_disk(local));
  }
  Plan plan;
  plan.offline = true;
  plan.offline_reason = std::move(reason);
  plan.cache = options.environment.cache;
  plan.folder = local.folder;
  plan.model.repository = local.repository;
  plan.model.revision = name.revision_or_main();
  plan.model.commit = local.commit;
  return plan;
}

/// Where there are no links, bytes that lie in a blob are copied.
uint64_t Hub::Impl::needed_disk(const Plan& plan) const {
  uint64_t bytes = plan.missing();
  if (options.environment.use_links) return bytes;
  for (const PlannedRepository* planned : {&plan.model, plan.drafter ? &*plan.drafter : nullptr}) {
    if (planned == nullptr) continue;
    for (const PlannedFile& file : planned->files)
      bytes += file.state == FileState::kUnlinked ? file.there : 0;
  }
  return bytes;
}

Hub::Hub(HubOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Hub::~Hub() = default;

const Environment& Hub::environment() const {
  return impl_->options.environment;
}

Plan Hub::plan(const ModelName& name, const PlanOptions& options) {
  const Environment& environment = impl_->options.environment;
  if (environment.cache.empty()) {
    fail_usage("there is no folder for downloads: neither HOME nor HF_HUB_CACHE is set");
  }
  const LocalModel local = find_local(name, environment);
  if (environment.offline) {
    return impl_->plan_from_cache(local, name, "HF_HUB_OFFLINE is set, so nothing is asked of the hub");
  }
  const std::string repository = impl_->repository_for(name, local);
  const bool here = local.presence == Presence::kComplete;
  Plan plan;
  plan.cache = environment.cache;
  try {
    plan.model = impl_->plan_repository(repository, name.revision_or_main(), Part::kModel,
                                        here ? Patience::kOnce : Patience::kUsual);
    impl_->plan_drafter(plan, options.drafter);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBadFile) impl_->fail_with_suggestions(error, repository);
    impl_->api.check_cancelled();
    if (error.kind() == ErrorKind::kRuntime) return impl_->plan_from_cache(local, name, error.what());
    throw;
  }
  plan.folder = impl_->cached(plan.model.repository).snapshot(plan.model.commit).string();
  plan.free_disk = impl_->options.files->free_bytes(plan.cache);
  const NamedModel* named = find_by_repository(plan.model.repository);
  if (named != nullptr && named->smaller != nullptr) plan.smaller = find_named(named->smaller);
  return plan;
}

void Hub::require_disk(const Plan& plan) const {
  if (plan.offline) return;
  const uint64_t needed = impl_->needed_disk(plan);
  const uint64_t free_now = impl_->options.files->free_bytes(plan.cache);
  if (needed <= free_now) return;
  fail(ErrorKind::kRuntime,
       "{}: {} are missing of {}, but the disk has only {} left; free some, or set HF_HUB_CACHE "
       "to a folder on a larger disk",
       plan.cache, bytes_text(needed), plan.model.repository, bytes_text(free_now));
}

Pulled Hub::pull(const Plan& plan, const PullOptions& options, Listener& listener) {
  Pulled pulled{plan.folder, "", 0};
  if (plan.offline) return pulled;
  require_disk(plan);
  struct Counting : Listener {
    Listener& to;
    uint64_t fetched = 0;
    explicit Counting(Listener& listener_to) : to(listener_to) {}
    void on_progress(const Progress& progress) override {
      fetched = progress.fetched;
      to.on_progress(progress);
    }
    void on_file_done(const FileProgress& file) override { to.on_file_done(file); }
    void on_notice(const std::string& text) override { to.on_notice(text); }
  } counting(listener);
  struct Told {
    Impl& impl;
    Told(Impl& of, Listener& to) : impl(of) { impl.listener = &to; }
    ~Told() { impl.listener = nullptr; }
  } told(*impl_, counting);

  std::vector<std::unique_ptr<Placing>> placings;
  std::vector<DownloadFile> wanted;
  for (const PlannedRepository* planned : {&plan.model, plan.drafter ? &*plan.drafter : nullptr}) {
    if (planned == nullptr) continue;
    const CachedRepository cached = impl_->cached(planned->repository);
    const bool all_there = std::all_of(planned->files.begin(), planned->files.end(), [&](const auto& file) {
      return look_up(cached, planned->commit, file.file).state == FileState::kThere;
    });
    // Nothing to do is nothing to write, also on a disk that may only be read.
    if (all_there && cached.commit_of(planned->revision) == planned->commit) continue;
    placings.push_back(std::make_unique<Placing>(impl_->api, *impl_->options.files, *planned, counting));
    for (DownloadFile& file : placings.back()->begin()) wanted.push_back(std::move(file));
  }
  download(impl_->api, *impl_->options.files, wanted, {options.connections}, counting);
  for (auto& placing : placings) placing->finish();
  if (plan.drafter) {
    pulled.drafter = impl_->cached(plan.drafter->repository).snapshot(plan.drafter->commit).string();
  }
  pulled.fetched = counting.fetched;
  return pulled;
}

RemoteHeader Hub::Impl::read_header(const PlannedRepository& repository, const PlannedFile& planned) {
  const RemoteFile& file = planned.file;
  RemoteHeader header{file.path, file.size, "", ""};
  const CachedRepository folder = cached(repository.repository);
  const bool here = planned.state == FileState::kThere || planned.state == FileState::kUnlinked;
  const fs::path path = planned.state == FileState::kThere ? folder.snapshot(repository.commit) / file.path
                                                           : folder.blob(file.etag);
  const uint64_t first = std::min(kFirstRange, file.size);
  const Subject subject{repository.repository, repository.commit, file.path};
  const auto address =
      here ? std::nullopt : std::optional(api.locate(repository.repository, repository.commit, file));
  const auto read = [&](net::ByteRange range) {
    return here ? read_part(path, range) : api.read_range(*address, subject, range, file.size);
  };
  if (first > 0) header.bytes = read({0, first});
  const auto end = header_end(header.bytes, file.size);
  if (!end) {
    header.bytes.clear();
    header.fault = fmt::format("{}/{}: is no safetensors file", repository.repository, file.path);
    return header;
  }
  if (*end > first) header.bytes += read({first, *end});
  header.bytes.resize(*end);
  return header;
}

std::vector<RemoteHeader> Hub::read_headers(const PlannedRepository& repository) {
  std::vector<RemoteHeader> headers;
  for (const PlannedFile& planned : repository.files) {
    if (planned.file.path.ends_with(".safetensors"))
      headers.push_back(impl_->read_header(repository, planned));
  }
  return headers;
}

std::string Hub::write_outline(const PlannedRepository& repository, const std::string& folder) {
  constexpr const char* kOutlined[] = {kConfigFile, kIndexFile, "generation_config.json",
                                       "tokenizer_config.json", "chat_template.jinja"};
  const fs::path to = folder;
  fs::create_directories(to);
  for (const PlannedFile& planned : repository.files) {
    const bool wanted = std::any_of(std::begin(kOutlined), std::end(kOutlined),
                                    [&](const char* name) { return planned.file.path == name; });
    if (wanted) {
      write_file(to / planned.file.path,
                 impl_->read_small(repository.repository, repository.commit, planned.file));
    }
  }
  std::string fault;
  for (const RemoteHeader& header : read_headers(repository)) {
    if (fault.empty()) fault = header.fault;
    write_file(to / header.path, header.bytes);
    std::error_code error;
    fs::resize_file(to / header.path, header.file_size, error);
    if (error)
      fail(ErrorKind::kRuntime, "{}: cannot be made {} bytes long", (to / header.path).string(),
           header.file_size);
  }
  return fault;
}

}  // namespace slip::hub
