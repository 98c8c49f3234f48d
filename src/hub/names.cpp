#include "hub/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "net/url.h"

namespace slip::hub {
namespace {

using checkpoint::in_quotes;

constexpr size_t kLongestName = 96;
constexpr size_t kLongestRevision = 200;
constexpr size_t kLongestTyped = 1000;
constexpr size_t kMostShown = 3;
constexpr size_t kMostFarther = 2;  // steps more than the closest name

// Weights alone; a repository's other files add about 32 MB. Sizes of google's files are exact. Of the 4-bit
// copies only the first is known exactly.
constexpr NamedModel kModels[] = {
    {.name = "gemma-4-e2b",
     .repository = "google/gemma-4-E2B-it",
     .size = "E2B",
     .bits = 16,
     .bytes = 10'246'621'918,
     .exact = true,
     .drafter = "google/gemma-4-E2B-it-assistant",
     .drafter_bytes = 157'565'344,
     .smaller = "gemma-4-e2b:4bit",
     .dflash = nullptr,
     .dflash_bytes = 0},
    {.name = "gemma-4-e4b",
     .repository = "google/gemma-4-E4B-it",
     .size = "E4B",
     .bits = 16,
     .bytes = 15'992'595'884,
     .exact = true,
     .drafter = "google/gemma-4-E4B-it-assistant",
     .drafter_bytes = 159'138'208,
     .smaller = "gemma-4-e4b:4bit",
     .dflash = nullptr,
     .dflash_bytes = 0},
    {.name = "gemma-4-12b",
     .repository = "google/gemma-4-12B-it",
     .size = "12B",
     .bits = 16,
     .bytes = 23'919'549'408,
     .exact = true,
     .drafter = "google/gemma-4-12B-it-assistant",
     .drafter_bytes = 845'719'296,
     .smaller = "gemma-4-12b:4bit",
     .dflash = "z-lab/gemma4-12B-it-DFlash",
     .dflash_bytes = 1'455'000'120},
    {.name = "gemma-4-26b",
     .repository = "google/gemma-4-26B-A4B-it",
     .size = "26B-A4B",
     .bits = 16,
     .bytes = 49'907'246'508 + 1'704'763'408,
     .exact = true,
     .drafter = "google/gemma-4-26B-A4B-it-assistant",
     .drafter_bytes = 839'427'840,
     .smaller = "gemma-4-26b:4bit",
     .dflash = "z-lab/gemma-4-26B-A4B-it-DFlash",
     .dflash_bytes = 859'384'328},
    {.name = "gemma-4-31b",
     .repository = "google/gemma-4-31B-it",
     .size = "31B",
     .bits = 16,
     .bytes = 49'784'788'364 + 12'761'549'884,
     .exact = true,
     .drafter = "google/gemma-4-31B-it-assistant",
     .drafter_bytes = 939'042'560,
     .smaller = "gemma-4-31b:4bit",
     .dflash = "z-lab/gemma-4-31B-it-DFlash",
     .dflash_bytes = 3'071'941'240},
    {.name = "gemma-4-e2b:4bit",
     .repository = "mlx-community/gemma-4-e2b-it-4bit",
     .size = "E2B",
     .bits = 4,
     .bytes = 3'550'670'554,
     .exact = true,
     .drafter = "google/gemma-4-E2B-it-assistant",
     .drafter_bytes = 157'565'344,
     .smaller = nullptr,
     .dflash = nullptr,
     .dflash_bytes = 0},
    {.name = "gemma-4-e4b:4bit",
     .repository = "mlx-community/gemma-4-e4b-it-4bit",
     .size = "E4B",
     .bits = 4,
     .bytes = 5'100'000'000,
     .exact = false,
     .drafter = "google/gemma-4-E4B-it-assistant",
     .drafter_bytes = 159'138'208,
     .smaller = nullptr,
     .dflash = nullptr,
     .dflash_bytes = 0},
    {.name = "gemma-4-12b:4bit",
     .repository = "mlx-community/gemma-4-12B-it-4bit",
     .size = "12B",
     .bits = 4,
     .bytes = 7'000'000'000,
     .exact = false,
     .drafter = "google/gemma-4-12B-it-assistant",
     .drafter_bytes = 845'719'296,
     .smaller = nullptr,
     .dflash = "z-lab/gemma4-12B-it-DFlash",
     .dflash_bytes = 1'455'000'120},
    {.name = "gemma-4-26b:4bit",
     .repository = "mlx-community/gemma-4-26b-a4b-it-4bit",
     .size = "26B-A4B",
     .bits = 4,
     .bytes = 15'300'000'000,
     .exact = false,
     .drafter = "google/gemma-4-26B-A4B-it-assistant",
     .drafter_bytes = 839'427'840,
     .smaller = nullptr,
     .dflash = "z-lab/gemma-4-26B-A4B-it-DFlash",
     .dflash_bytes = 859'384'328},
    {.name = "gemma-4-31b:4bit",
     .repository = "mlx-community/gemma-4-31b-it-4bit",
     .size = "31B",
     .bits = 4,
     .bytes = 18'400'000'000,
     .exact = false,
     .drafter = "google/gemma-4-31B-it-assistant",
     .drafter_bytes = 939'042'560,
     .smaller = nullptr,
     .dflash = "z-lab/gemma-4-31B-it-DFlash",
     .dflash_bytes = 3'071'941'240},
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

bool is_part(std::string_view text) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  // The cache joins owner and name with "--", so neither may hold it.
  return !text.empty() && text.size() <= kLongestName && std::all_of(text.begin(), text.end(), good) &&
         text.front() != '-' && text.front() != '.' && text.back() != '.' && text.back() != '-' &&
         text.find("..") == std::string_view::npos && text.find("--") == std::string_view::npos;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
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

std::string_view after_owner(std::string_view name) {
  const size_t slash = name.find('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

std::string joined(std::span<const std::string_view> parts) {
  std::string result;
  for (const std::string_view part : parts) result += (result.empty() ? "" : "/") + std::string(part);
  return result;
}

/// "refs%2Fpr%2F1" -> "refs/pr/1", as the hub writes revisions in its addresses. What is no %XX stays.
std::string decoded(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    result += escape ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return result;
}

/// The path of a hub's page: "user/repo", "user/repo/tree/main", "user/repo/blob/main/config.json".
ModelName from_page(std::string_view path, std::string_view typed) {
  while (path.ends_with('/')) path.remove_suffix(1);
  auto parts = split(path, '/');
  if (parts.size() == 3 && parts[0] == "models") parts.erase(parts.begin());
  if (parts.size() < 2) fail_usage("{} names no repository; give hf.co/user/repo", in_quotes(typed));
  if (parts[0] == "datasets" || parts[0] == "spaces") {
    fail_usage("{} is not the address of a model", in_quotes(typed));
  }
  ModelName name;
  name.repository = std::string(parts[0]) + "/" + std::string(parts[1]);
  if (parts.size() >= 4 && (parts[2] == "tree" || parts[2] == "blob" || parts[2] == "resolve")) {
    // "refs/pr/1" is a revision of three words; elsewhere what follows is a path in the repository.
    const bool reference = parts.size() >= 6 && parts[3] == "refs";
    name.revision = reference ? joined(std::span(parts).subspan(3, 3)) : decoded(parts[3]);
  }
  return name;
}

/// What stands behind the host of a hub's address; nothing when the text is no such address.
std::optional<std::string_view> page_of(std::string_view text, std::string_view endpoint) {
  std::string_view rest = text;
  bool address = false;
  for (const std::string_view scheme : {"https://", "http://", "hf://"}) {
    if (lower(rest.substr(0, scheme.size())) != scheme) continue;
    rest.remove_prefix(scheme.size());
    if (scheme == "hf://") return rest;
    address = true;
    break;
  }
  rest = rest.substr(0, rest.find_first_of("?#"));
  const size_t slash = rest.find('/');
  const std::string host = lower(rest.substr(0, slash));
  const auto own = net::parse_url(endpoint);
  const bool is_own = own && (host == own->host || host == own->host + ":" + own->port);
  const bool known = host == "huggingface.co" || host == "www.huggingface.co" || host == "hf.co" || is_own;
  if (!known && address) {
    fail_usage("{} is not an address of the hub; give https://huggingface.co/user/repo, or set HF_ENDPOINT",
               in_quotes(text));
  }
  if (!known || slash == std::string_view::npos) return std::nullopt;
  return rest.substr(slash + 1);
}

/// "name@revision"; the @ of an address comes behind its host.
std::pair<std::string_view, std::string_view> cut_revision(std::string_view text) {
  const size_t at = text.rfind('@');
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

}  // namespace

std::span<const NamedModel> named_models() {
  return kModels;
}

const NamedModel* find_named(std::string_view name) {
  const std::string wanted = lower(name);
  const auto at = std::find_if(std::begin(kModels), std::end(kModels),
                               [&](const NamedModel& model) { return wanted == model.name; });
  return at == std::end(kModels) ? nullptr : at;
}

const NamedModel* find_by_repository(std::string_view repository) {
  const std::string wanted = lower(repository);
  const auto at = std::find_if(std::begin(kModels), std::end(kModels),
                               [&](const NamedModel& model) { return wanted == lower(model.repository); });
  return at == std::end(kModels) ? nullptr : at;
}

int needed_gigabytes(const NamedModel& model) {
  // Beside the weights: the drafter, the cache of a short context, what a step works in.
  constexpr double kBeside = 1.5e9;
  return static_cast<int>((static_cast<double>(model.bytes + model.drafter_bytes) + kBeside) / 1e9) + 1;
}

std::string named_models_markdown() {
  std::string text =
      "| name | size | repository | bits | weights, bytes | drafter, bytes | DFlash drafter, bytes | needs "
      "|\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const NamedModel& model : kModels) {
    const std::string weights = model.exact
                                    ? fmt::format("{}", model.bytes)
                                    : fmt::format("about {:.1f} GB", static_cast<double>(model.bytes) / 1e9);
    const std::string dflash =
        model.dflash == nullptr ? "none" : fmt::format("`{}`, {}", model.dflash, model.dflash_bytes);
    text += fmt::format("| `{}` | {} | `{}` | {} | {} | `{}`, {} | {} | {} GB of memory |\n", model.name,
                        model.size, model.repository, model.bits, weights, model.drafter, model.drafter_bytes,
                        dflash, needed_gigabytes(model));
  }
  return text;
}

bool is_repository(std::string_view text) {
  const auto parts = split(text, '/');
  return parts.size() == 2 && is_part(parts[0]) && is_part(parts[1]);
}

bool is_revision(std::string_view text) {
  const auto good = [](char c) {
    return c > ' ' && c < 0x7f && c != '\\' && c != ':' && c != '?' && c != '*' && c != '[' && c != '~' &&
           c != '^';
  };
  if (text.empty() || text.size() > kLongestRevision || !std::all_of(text.begin(), text.end(), good)) {
    return false;
  }
  const auto parts = split(text, '/');
  return std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
    return !part.empty() && part.front() != '.' && part.back() != '.' &&
           part.find("..") == std::string_view::npos;
  });
}

ModelName parse_model_name(std::string_view text, std::string_view endpoint) {
  if (text.empty()) {
    fail_usage("the model's name is empty; give a folder or a name such as google/gemma-4-E2B-it");
  }
  if (text.size() > kLongestTyped) fail_usage("the model's name is {} characters long", text.size());
  const auto page = page_of(text, endpoint);
  const auto [name, revision] = cut_revision(page ? *page : text);
  ModelName result;
  if (page) {
    result = from_page(name, text);
  } else if (const NamedModel* named = find_named(name)) {
    result = {named->repository, "", named};
  } else {
    result.repository = name;
  }
  if (const size_t colon = result.repository.find(':'); colon != std::string::npos) {
    fail_usage(
        "the name {} has the variant {}, which is none that slipstream knows; only short names such as "
        "gemma-4-e2b:4bit have variants",
        in_quotes(text), in_quotes(std::string_view(result.repository).substr(colon)));
  }
  if (!is_repository(result.repository) && !(is_part(result.repository) && !page)) {
    fail_usage("{} is not the name of a model; give user/name, such as google/gemma-4-E2B-it",
               in_quotes(text));
  }
  if (name.size() != (page ? *page : text).size()) {
    if (!is_revision(revision)) {
      fail_usage("{} has a revision that cannot be one; give a branch, a tag or a commit", in_quotes(text));
    }
    result.revision = revision;
  }
  if (!result.revision.empty() && !is_revision(result.revision)) {
    fail_usage("{} has a revision that cannot be one; give a branch, a tag or a commit", in_quotes(text));
  }
  return result;
}

std::vector<std::string> similar_names(std::string_view text, std::span<const std::string> others) {
  const std::string wanted = lower(text.substr(0, 200));
  const std::string bare = lower(after_owner(text).substr(0, 200));
  // Names that hold the text, or are held by it, before those that are merely close.
  std::vector<std::tuple<bool, size_t, std::string>> ranked;
  const auto consider = [&](const std::string& name) {
    const std::string own = lower(name);
    const std::string other{after_owner(own)};
    const size_t distance = wanted == bare ? edit_distance(bare, other)
                                           : std::min(edit_distance(wanted, own), edit_distance(bare, other));
    const bool contained = other.find(bare) != std::string::npos || bare.find(other) != std::string::npos;
    if (contained || distance <= std::max<size_t>(3, bare.size() / 3)) {
      ranked.emplace_back(!contained, distance, name);
    }
  };
  for (const std::string& other : others) consider(other);
  // Who types an owner gets names with owners, and the other way round: both would be the same model twice.
  for (const NamedModel& model : kModels) consider(wanted == bare ? model.name : model.repository);
  std::sort(ranked.begin(), ranked.end());
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  std::vector<std::string> names;
  for (const auto& [apart, distance, name] : ranked) {
    const auto& [first_apart, first_distance, first] = ranked.front();
    if (names.size() == kMostShown || apart != first_apart || distance > first_distance + kMostFarther) break;
    names.push_back(name);
  }
  return names;
}

}  // namespace slip::hub
