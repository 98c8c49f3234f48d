#include "checkpoint/hub.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/mapped_file.h"
#include "checkpoint/json_text.h"

namespace slip::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kModel = "models--";
// What conversions put after a model's name. Not "-qat": models trained for rounding have assistants of their
// own.
constexpr std::string_view kFormats[] = {"-bf16", "-8bit", "-6bit", "-5bit", "-4bit", "-3bit", "-mlx"};
constexpr size_t kMostShown = 5;

struct CachedModel {
  std::string name;  // "google/gemma-4-E2B-it"
  fs::path folder;
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

std::string_view after_organisation(std::string_view name) {
  const size_t slash = name.find('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

/// "models--google--gemma-4-E2B-it" -> "google/gemma-4-E2B-it"; empty for other folders.
std::string repository_of(const fs::path& folder) {
  std::string name = folder.filename().string();
  if (!name.starts_with(kModel)) return "";
  name.erase(0, kModel.size());
  if (const size_t dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
  return name;
}

std::vector<CachedModel> list_models(const std::vector<std::string>& caches) {
  std::vector<CachedModel> models;
  for (const std::string& cache : caches) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(cache, ignored)) {
      if (std::string name = repository_of(entry.path()); !name.empty()) {
        models.push_back({std::move(name), entry.path()});
      }
    }
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return models;
}

/// Steps from one word to the other: insert, remove or replace a letter.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::vector<std::string> resembling(const std::string& name, const std::vector<CachedModel>& models) {
  const std::string wanted = lower(after_organisation(name)).substr(0, 200);
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const CachedModel& model : models) {
    const std::string other = lower(after_organisation(model.name));
    const size_t distance = edit_distance(wanted, other);
    const bool contained = other.find(wanted) != std::string::npos || wanted.find(other) != std::string::npos;
    if (contained || distance <= std::max<size_t>(3, wanted.size() / 3))
      ranked.emplace_back(distance, model.name);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(ranked.size(), kMostShown); ++i) names.push_back(ranked[i].second);
  return names;
}

/// refs/main names the revision; without it (a pruned or copied cache) the newest snapshot counts. Empty when
/// there is none.
std::string newest_snapshot(const CachedModel& model) {
  std::error_code ignored;
  const fs::path snapshots = model.folder / "snapshots";
  const fs::path reference = model.folder / "refs" / "main";
  if (fs::is_regular_file(reference, ignored)) {
    std::string revision = read_text_file(reference.string(), 4096);
    while (!revision.empty() && static_cast<unsigned char>(revision.back()) <= ' ') revision.pop_back();
    const bool plain =
        !revision.empty() && revision.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    if (plain && fs::is_directory(snapshots / revision, ignored)) return (snapshots / revision).string();
  }
  fs::path newest;
  fs::file_time_type newest_time;
  for (const auto& entry : fs::directory_iterator(snapshots, ignored)) {
    if (!entry.is_directory(ignored)) continue;
    const auto time = entry.last_write_time(ignored);
    if (newest.empty() || time > newest_time) newest = entry.path(), newest_time = time;
  }
  return newest.string();
}

std::string snapshot_of(const CachedModel& model) {
  std::string snapshot = newest_snapshot(model);
  if (snapshot.empty()) {
    fail_file("{}: the cached model {} has no snapshot; download it again", model.folder.string(),
              in_quotes(model.name));
  }
  return snapshot;
}

/// Exact names first; then the same without regard to case or organisation.
std::vector<CachedModel> matching(const std::string& name, const std::vector<CachedModel>& models) {
  const bool with_organisation = name.find('/') != std::string::npos;
  for (const bool any_case : {false, true}) {
    std::vector<CachedModel> found;
    for (const CachedModel& model : models) {
      const std::string_view own =
          with_organisation ? std::string_view(model.name) : after_organisation(model.name);
      if (any_case ? lower(own) == lower(name) : own == name) found.push_back(model);
    }
    if (!found.empty()) return found;
  }
  return {};
}

[[noreturn]] void fail_unknown(const std::string& name, const std::vector<std::string>& caches,
                               const std::vector<CachedModel>& models) {
  const auto similar = resembling(name, models);
  std::string advice = fmt::format("{} models are there, none with a similar name", models.size());
  if (models.empty()) advice = "no models are there";
  if (!similar.empty()) advice = fmt::format("did you mean {}?", fmt::join(similar, " or "));
  fail_file("no model {}: it is neither a folder nor a model in the Hugging Face cache ({}); {}",
            in_quotes(name), fmt::join(caches, ", "), advice);
}

bool has_config(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.json", ignored);
}

/// The folder of a model without a trailing slash or dots, so that a name can be put after it.
fs::path plain_path(const std::string& folder) {
  std::error_code ignored;
  fs::path path = fs::absolute(folder, ignored).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// The names that the assistant of a model may have, the likeliest first: "gemma-4-E2B-it-4bit" has its own
/// name with "-assistant", or that of the model it was made from, itself converted or not.
std::vector<std::string> assistant_names(std::string_view model) {
  std::string_view bare = model;
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view format : kFormats) {
      if (!lower(bare).ends_with(format)) continue;
      bare.remove_suffix(format.size());
      cut = true;
    }
  }
  std::vector<std::string> names;
  for (const std::string_view stem : {model, bare}) {
    for (const char* format : {"", "-bf16", "-8bit", "-4bit"}) {
      names.push_back(fmt::format("{}-assistant{}", stem, format));
    }
    if (bare == model) break;
  }
  return names;
}

/// The cached model whose name is exactly this.
std::string cached_folder(const std::string& name, const std::vector<std::string>& caches) {
  for (const CachedModel& model : list_models(caches)) {
    if (lower(model.name) != lower(name)) continue;
    try {
      const std::string folder = newest_snapshot(model);
      if (!folder.empty() && has_config(folder)) return folder;
    } catch (const Error&) {
      continue;  // a damaged reference: nobody asked for this model by name
    }
  }
  return "";
}

/// The cached assistant of a model with this full name: of the model's own organisation, else of the one the
/// model comes from.
std::string cached_assistant(const std::string& model, const std::vector<std::string>& caches) {
  const std::string_view name = after_organisation(model);
  const std::string own = model.substr(0, model.size() - name.size());
  for (const std::string& organisation : {own, std::string("google/")}) {
    for (const std::string& candidate : assistant_names(name)) {
      const std::string found = cached_folder(organisation + candidate, caches);
      if (!found.empty()) return found;
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> hub_caches() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return {cache};
  if (const std::string home = variable("HF_HOME"); !home.empty()) return {(fs::path(home) / "hub").string()};
  if (const std::string home = variable("HOME"); !home.empty()) {
    return {(fs::path(home) / ".cache" / "huggingface" / "hub").string()};
  }
  return {};
}

std::string resolve_model(const std::string& name, const std::vector<std::string>& caches) {
  if (name.empty())
    fail_usage("the model's name is empty; give a folder or a name such as google/gemma-4-E2B-it");
  std::error_code ignored;
  // A file goes through as it is, too: open() knows best what to say about it.
  if (fs::exists(name, ignored)) return name;
  const auto models = list_models(caches);
  const auto found = matching(name, models);
  if (found.empty()) fail_unknown(name, caches, models);
  if (found.size() > 1) {
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(found.size(), kMostShown); ++i) names.push_back(found[i].name);
    fail_file("the name {} fits {} cached models ({}); give the organisation too", in_quotes(name),
              found.size(), fmt::join(names, ", "));
  }
  return snapshot_of(found.front());
}

std::string find_assistant(const std::string& model, const std::vector<std::string>& caches) {
  std::error_code ignored;
  if (!fs::is_directory(model, ignored)) {
    for (const CachedModel& cached : matching(model, list_models(caches))) {
      const std::string found = cached_assistant(cached.name, caches);
      if (!found.empty()) return found;
    }
    return "";
  }
  const fs::path folder = plain_path(model);
  for (const std::string& name : assistant_names(folder.filename().string())) {
    if (const fs::path beside = folder.parent_path() / name; has_config(beside)) return beside.string();
  }
  if (has_config(folder / "assistant")) return (folder / "assistant").string();
  // <cache>/models--org--name/snapshots/<revision>
  const fs::path repository = folder.parent_path().parent_path();
  const std::string name = repository_of(repository);
  if (name.empty() || folder.parent_path().filename() != "snapshots") return "";
  std::vector<std::string> all{repository.parent_path().string()};
  all.insert(all.end(), caches.begin(), caches.end());
  return cached_assistant(name, all);
}

}  // namespace slip::checkpoint
