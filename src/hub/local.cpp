#include "hub/local.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "hub/cache.h"
#include "hub/weight_index.h"

namespace slip::hub {
namespace {

using checkpoint::in_quotes;

// What conversions put after a model's name. Not "-qat": models trained for rounding have assistants of their
// own.
constexpr std::string_view kFormats[] = {"-bf16", "-8bit", "-6bit", "-5bit", "-4bit", "-3bit", "-mlx"};
constexpr size_t kMostShown = 5;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

std::string_view after_owner(std::string_view name) {
  const size_t slash = name.find('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// Exact names first; then the same without regard to case or owner.
std::vector<CachedRepository> matching(const std::string& name, const fs::path& cache) {
  const bool with_owner = name.find('/') != std::string::npos;
  std::error_code ignored;
  if (with_owner) {
    CachedRepository exact(cache, name);
    if (fs::is_directory(exact.folder(), ignored)) return {exact};
  }
  const auto all = list_repositories(cache);
  for (const bool any_case : {false, true}) {
    std::vector<CachedRepository> found;
    for (const CachedRepository& repository : all) {
      const std::string_view own =
          with_owner ? std::string_view(repository.name()) : after_owner(repository.name());
      if (any_case ? lower(own) == lower(name) : own == name) found.push_back(repository);
    }
    if (!found.empty()) return found;
  }
  return {};
}

[[noreturn]] void fail_ambiguous(const std::string& name, const std::vector<CachedRepository>& found) {
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(found.size(), kMostShown); ++i) names.push_back(found[i].name());
  fail_file("the name {} fits {} cached models ({}); give the owner too", in_quotes(name), found.size(),
            fmt::join(names, ", "));
}

/// "gemma-4-E2B-it" -> "google/gemma-4-E2B-it", when the table knows it.
std::string owner_by_table(const std::string& bare) {
  for (const NamedModel& model : named_models()) {
    if (lower(after_owner(model.repository)) == lower(bare)) return model.repository;
  }
  return bare;
}

std::string cached_names_text(const Environment& environment, std::vector<std::string>& names) {
  for (const CachedRepository& repository : list_repositories(environment.cache)) {
    names.push_back(repository.name());
  }
  return names.empty() ? "no models are there" : fmt::format("{} models are there", names.size());
}

[[noreturn]] void fail_unknown(const std::string& typed, const LocalModel& local,
                               const Environment& environment) {
  if (local.repository.find('/') != std::string::npos) {
    std::vector<std::string> names;
    const std::string count = cached_names_text(environment, names);
    const auto similar = similar_names(local.repository, names);
    const bool known = find_by_repository(local.repository) != nullptr;
    std::string advice;
    if (!known && !similar.empty()) advice = fmt::format("; did you mean {}?", fmt::join(similar, " or "));
    fail_file(
        "no model {} here: it is neither a folder nor in the Hugging Face cache ({}, {}); "
        "'slipstream pull {}' downloads it{}",
        in_quotes(typed), environment.cache, count, typed, advice);
  }
  std::vector<std::string> names;
  const std::string count = cached_names_text(environment, names);
  const auto similar = similar_names(typed, names);
  const std::string advice = similar.empty()
                                 ? count + ", none with a similar name"
                                 : fmt::format("{}; did you mean {}?", count, fmt::join(similar, " or "));
  fail_file("no model {}: it is neither a folder nor a model in the Hugging Face cache ({}); {}",
            in_quotes(typed), environment.cache, advice);
}

/// The folder of a model without a trailing slash or dots, so that a name can be put after it.
fs::path plain_path(const std::string& folder) {
  std::error_code ignored;
  fs::path path = fs::absolute(folder, ignored).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// "gemma-4-E2B-it-mlx-4bit" -> "gemma-4-E2B-it"
std::string_view without_formats(std::string_view model) {
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view format : kFormats) {
      if (!lower(model).ends_with(format)) continue;
      model.remove_suffix(format.size());
      cut = true;
    }
  }
  return model;
}

/// The row of the table that a repository is, or was converted from: "someone/gemma-4-31B-it-8bit".
const NamedModel* origin_of(const std::string& repository) {
  if (const NamedModel* named = find_by_repository(repository)) return named;
  const std::string bare = lower(without_formats(after_owner(repository)));
  for (const NamedModel& model : named_models()) {
    if (lower(after_owner(model.repository)) == bare) return &model;
  }
  return nullptr;
}

/// The names that the assistant of a model may have, the likeliest first: "gemma-4-E2B-it-4bit" has its own
/// name with "-assistant", or that of the model it was made from, itself converted or not.
std::vector<std::string> assistant_names(std::string_view model) {
  const std::string_view bare = without_formats(model);
  std::vector<std::string> names;
  for (const std::string_view stem : {model, bare}) {
    for (const char* format : {"", "-bf16", "-8bit", "-4bit"}) {
      names.push_back(fmt::format("{}-assistant{}", stem, format));
    }
    if (bare == model) break;
  }
  return names;
}

/// The cached assistant of a model with this full name: of the model's own owner, else of the one the model
/// comes from.
std::string cached_assistant(const std::string& model, const fs::path& cache) {
  const std::string_view name = after_owner(model);
  const std::string own = model.substr(0, model.size() - name.size());
  const auto all = list_repositories(cache);
  for (const std::string& owner : {own, std::string("google/")}) {
    for (const std::string& candidate : assistant_names(name)) {
      for (const CachedRepository& repository : all) {
        if (lower(repository.name()) != lower(owner + candidate)) continue;
        const auto commit = repository.current_commit();
        if (!commit) continue;
        const fs::path folder = repository.snapshot(*commit);
        // One that a pull has begun and not ended would only be refused.
        if (missing_files(folder.string()).empty()) return folder.string();
      }
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> missing_files(const std::string& folder) {
  std::vector<std::string> missing;
  if (!is_file(fs::path(folder) / kConfigFile)) missing.emplace_back(kConfigFile);
  if (is_file(fs::path(folder) / kSingleFile)) return missing;
  if (!is_file(fs::path(folder) / kIndexFile)) {
    missing.emplace_back(kSingleFile);
    return missing;
  }
  try {
    for (const std::string& shard : read_weight_index((fs::path(folder) / kIndexFile).string())) {
      if (!is_file(fs::path(folder) / shard)) missing.push_back(shard);
    }
  } catch (const Error&) {
    missing.push_back(kIndexFile);  // damaged
  }
  return missing;
}

LocalModel find_local(const ModelName& name, const Environment& environment) {
  LocalModel local;
  local.repository = name.repository;
  auto found = environment.cache.empty() ? std::vector<CachedRepository>()
                                         : matching(name.repository, environment.cache);
  if (found.empty() && !name.has_owner()) {
    local.repository = owner_by_table(name.repository);
    return local;
  }
  if (found.size() > 1) fail_ambiguous(name.repository, found);
  if (found.empty()) return local;
  const CachedRepository& repository = found.front();
  local.repository = repository.name();
  const auto commit =
      name.revision.empty() ? repository.current_commit() : repository.commit_of(name.revision);
  if (!commit) return local;
  local.commit = *commit;
  local.folder = repository.snapshot(*commit).string();
  local.missing = missing_files(local.folder);
  local.presence = local.missing.empty() ? Presence::kComplete : Presence::kPartial;
  return local;
}

std::string resolve_model(const std::string& name, const Environment& environment) {
  if (name.empty()) {
    fail_usage("the model's name is empty; give a folder or a name such as google/gemma-4-E2B-it");
  }
  std::error_code ignored;
  // A file goes through as it is, too: open() knows best what to say about it.
  if (fs::exists(name, ignored)) return name;
  const bool path = name.front() == '/' || name.front() == '.' || name.front() == '~';
  if (path) fail_file("{}: there is no such folder", name);
  const LocalModel local = find_local(parse_model_name(name, environment.endpoint), environment);
  if (!local.folder.empty()) return local.folder;
  fail_unknown(name, local, environment);
}

std::string find_assistant(const std::string& model, const Environment& environment) {
  std::error_code ignored;
  if (!fs::is_directory(model, ignored)) {
    try {
      const LocalModel local = find_local(parse_model_name(model, environment.endpoint), environment);
      return local.folder.empty() ? "" : cached_assistant(local.repository, environment.cache);
    } catch (const Error&) {
      return "";  // no name of a model, so it has no assistant
    }
  }
  const fs::path folder = plain_path(model);
  for (const std::string& name : assistant_names(folder.filename().string())) {
    const fs::path beside = folder.parent_path() / name;
    if (is_file(beside / kConfigFile)) return beside.string();
  }
  if (is_file(folder / "assistant" / kConfigFile)) return (folder / "assistant").string();
  // <cache>/models--org--name/snapshots/<revision>
  const fs::path repository = folder.parent_path().parent_path();
  const std::string name = repository_of(repository);
  if (name.empty() || folder.parent_path().filename() != "snapshots") return "";
  const std::string found = cached_assistant(name, repository.parent_path());
  return found.empty() && !environment.cache.empty() ? cached_assistant(name, environment.cache) : found;
}

std::string find_dflash(const std::string& model, const Environment& environment) {
  try {
    std::error_code ignored;
    const bool is_folder = fs::is_directory(model, ignored);
    // <cache>/models--org--name/snapshots/<revision>
    const fs::path cached = is_folder ? plain_path(model).parent_path().parent_path() : fs::path();
    const std::string repository =
        is_folder ? repository_of(cached)
                  : find_local(parse_model_name(model, environment.endpoint), environment).repository;
    const std::string drafter = dflash_repository(repository);
    for (const fs::path& cache : {cached.parent_path(), fs::path(environment.cache)}) {
      if (drafter.empty() || cache.empty()) continue;
      const CachedRepository found(cache, drafter);
      const auto commit = found.current_commit();
      if (commit && missing_files(found.snapshot(*commit).string()).empty())
        return found.snapshot(*commit).string();
    }
  } catch (const Error&) {
    // no name of a model, so it has no drafter
  }
  return "";
}

std::string assistant_repository(const std::string& repository) {
  const NamedModel* model = origin_of(repository);
  return model == nullptr ? "" : model->drafter;
}

std::string dflash_repository(const std::string& repository) {
  const NamedModel* model = origin_of(repository);
  return model == nullptr || model->dflash == nullptr ? "" : model->dflash;
}

}  // namespace slip::hub
