#include "hub/listing.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "checkpoint/json_text.h"
#include "hub/cache.h"
#include "hub/names.h"

namespace slip::hub {
namespace {

using checkpoint::in_quotes;
using nlohmann::json;

constexpr size_t kLongestPath = 1024;
constexpr size_t kLongestComponent = 255;
constexpr size_t kMostFiles = 20000;
constexpr size_t kLongestShown = 300;
constexpr uint64_t kLargestFile = uint64_t{1} << 46;
constexpr int64_t kLongestWait = 600;

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80                   ? 1
                          : byte >= 0xc2 && byte < 0xe0 ? 2
                          : byte >= 0xe0 && byte < 0xf0 ? 3
                          : byte >= 0xf0 && byte < 0xf5 ? 4
                                                        : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

bool is_safe_component(std::string_view part) {
  return !part.empty() && part.size() <= kLongestComponent && part != "." && part != ".." &&
         std::none_of(part.begin(), part.end(), [](char c) {
           return static_cast<unsigned char>(c) < ' ' || c == 0x7f || c == '\\' || c == ':';
         });
}

const json* find(const json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

std::string text_of(const json& object, const char* key) {
  const json* value = find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

uint64_t size_of(const json& object, const std::string& path, const std::string& where) {
  const json* value = find(object, "size");
  if (value == nullptr || !value->is_number_unsigned() || value->get<uint64_t>() > kLargestFile) {
    fail(ErrorKind::kRuntime, "{}: the size of {} is no number of bytes", where, in_quotes(path));
  }
  return value->get<uint64_t>();
}

/// JSON that a server sent. An HTML page in its place is what a login page of a hotel looks like.
json parse_answer(std::string_view text, const std::string& where) {
  try {
    return checkpoint::parse_json(text, where);
  } catch (const Error& error) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    const bool page = first != std::string_view::npos && text[first] == '<';
    if (page) {
      fail(ErrorKind::kRuntime,
           "{}: answers with a web page instead of data; is there a login page on this network?", where);
    }
    fail(ErrorKind::kRuntime, "{}", error.what());
  }
}

RemoteFile file_of(const json& entry, const std::string& path, const std::string& where) {
  RemoteFile file{path, size_of(entry, path, where), text_of(entry, "oid"), false};
  if (const json* lfs = find(entry, "lfs")) {
    if (!lfs->is_object()) fail(ErrorKind::kRuntime, "{}: lfs of {} is no object", where, in_quotes(path));
    file.large = true;
    file.etag = text_of(*lfs, "oid");
    if (size_of(*lfs, path, where) != file.size) {
      fail(ErrorKind::kRuntime, "{}: gives two sizes for {}", where, in_quotes(path));
    }
  }
  if (file.large ? !is_sha256(file.etag) : !is_commit(file.etag)) {
    fail(ErrorKind::kRuntime, "{}: the hash of {} is {}, which is none", where, in_quotes(path),
         in_quotes(file.etag));
  }
  return file;
}

/// The licence stands in the model card's header, and again among the tags.
std::string licence_of(const json& info) {
  if (const json* card = find(info, "cardData"); card != nullptr && card->is_object()) {
    if (std::string licence = text_of(*card, "license"); !licence.empty()) return fit_for_message(licence);
  }
  const json* tags = find(info, "tags");
  if (tags == nullptr || !tags->is_array()) return "";
  for (const json& tag : *tags) {
    if (!tag.is_string()) continue;
    const auto& text = tag.get_ref<const std::string&>();
    if (text.starts_with("license:")) return fit_for_message(std::string_view(text).substr(8));
  }
  return "";
}

/// The value of `;name=` in a structured header such as `"api";r=0;t=55`.
std::optional<uint64_t> parameter(std::string_view text, char name) {
  const char wanted[] = {';', name, '='};
  const size_t at = text.find(std::string_view(wanted, sizeof wanted));
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + 3);
  return parse_number(text.substr(0, text.find_first_not_of("0123456789")));
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kLongestPath || !is_utf8(path)) return false;
  for (;;) {
    const size_t slash = path.find('/');
    if (!is_safe_component(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

RepositoryInfo parse_info(std::string_view text, const std::string& where) {
  const json info = parse_answer(text, where);
  if (!info.is_object()) fail(ErrorKind::kRuntime, "{}: answers with something that is no repository", where);
  RepositoryInfo result{text_of(info, "id"), text_of(info, "sha"), licence_of(info), false};
  if (result.id.empty()) result.id = text_of(info, "modelId");
  if (!is_repository(result.id)) {
    fail(ErrorKind::kRuntime, "{}: names the repository {}, which cannot be", where, in_quotes(result.id));
  }
  if (!is_commit(result.commit)) {
    fail(ErrorKind::kRuntime, "{}: names the commit {}, which is none", where, in_quotes(result.commit));
  }
  if (const json* gated = find(info, "gated")) result.gated = gated->is_string() || *gated == true;
  return result;
}

void parse_tree_page(std::string_view text, const std::string& where, std::vector<RemoteFile>& files) {
  const json page = parse_answer(text, where);
  if (!page.is_array())
    fail(ErrorKind::kRuntime, "{}: answers with something that is no list of files", where);
  for (const json& entry : page) {
    if (!entry.is_object()) fail(ErrorKind::kRuntime, "{}: lists something that is no file", where);
    const std::string type = text_of(entry, "type"), path = text_of(entry, "path");
    if (!is_safe_path(path)) {
      fail(ErrorKind::kRuntime,
           "{}: lists the path {}, which could leave the model's folder; nothing is downloaded", where,
           in_quotes(path));
    }
    if (type == "directory") continue;
    if (type != "file") {
      fail(ErrorKind::kRuntime, "{}: {} is of type {}; only files are downloaded", where, in_quotes(path),
           in_quotes(type));
    }
    files.push_back(file_of(entry, path, where));
    if (files.size() > kMostFiles) {
      fail(ErrorKind::kRuntime, "{}: lists more than {} files, which is no model", where, kMostFiles);
    }
  }
}

void check_tree(const std::vector<RemoteFile>& files, const std::string& where) {
  std::set<std::string_view> paths;
  for (const RemoteFile& file : files) {
    if (!paths.insert(file.path).second) {
      fail(ErrorKind::kRuntime, "{}: lists {} twice", where, in_quotes(file.path));
    }
  }
  for (const RemoteFile& file : files) {
    const std::string_view path = file.path;
    for (size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
      if (paths.contains(path.substr(0, slash))) {
        fail(ErrorKind::kRuntime, "{}: lists {} as a file and as a folder", where,
             in_quotes(path.substr(0, slash)));
      }
    }
  }
}

std::optional<std::string> next_page(const net::Reply& reply) {
  const std::string* link = reply.find("link");
  if (link == nullptr) return std::nullopt;
  // `<url>; rel="next", <url>; rel="last"`
  std::string_view rest = *link;
  while (!rest.empty()) {
    const size_t open = rest.find('<'), close = rest.find('>');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) break;
    const size_t end = rest.find(',', close);
    const std::string_view parameters =
        rest.substr(close + 1, end == std::string_view::npos ? end : end - close - 1);
    if (parameters.find("rel=\"next\"") != std::string_view::npos ||
        parameters.find("rel=next") != std::string_view::npos) {
      return std::string(rest.substr(open + 1, close - open - 1));
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return std::nullopt;
}

std::optional<std::chrono::seconds> wanted_wait(const net::Reply& reply) {
  std::optional<uint64_t> seconds;
  if (const std::string* limit = reply.find("ratelimit")) {
    const auto left = parameter(*limit, 'r'), until = parameter(*limit, 't');
    // One second more than it says: its clock and ours tick at different moments.
    if (until && left.value_or(0) == 0) seconds = std::min<uint64_t>(*until, kLongestWait) + 1;
  }
  if (!seconds) {
    if (const std::string* after = reply.find("retry-after")) seconds = parse_number(*after);
  }
  if (!seconds) return std::nullopt;
  return std::chrono::seconds(std::min<uint64_t>(*seconds, kLongestWait));
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const size_t dash = text.find('-'), slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash) return std::nullopt;
  const auto begin = parse_number(text.substr(0, dash));
  const auto last = parse_number(text.substr(dash + 1, slash - dash - 1));
  const auto total = parse_number(text.substr(slash + 1));
  if (!begin || !last || !total || *last < *begin || *last >= *total) return std::nullopt;
  return ContentRange{*begin, *last + 1, *total};
}

std::optional<uint64_t> parse_unsatisfied_range(std::string_view text) {
  constexpr std::string_view kStart = "bytes */";
  return text.starts_with(kStart) ? parse_number(text.substr(kStart.size())) : std::nullopt;
}

std::string bare_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

std::string fit_for_message(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, kLongestShown)) {
    const bool space = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (space) {
      if (!result.empty() && result.back() != ' ') result += ' ';
    } else {
      result += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? '?' : c;
    }
  }
  // The cut may have gone through a character.
  while (!result.empty() && !is_utf8(result)) result.pop_back();
  while (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

}  // namespace slip::hub
