#include "media/url.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "media/base64.h"
#include "media/media_file.h"
#include "media/refused.h"

namespace slip::media {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower(c);
  return out;
}

bool starts_with_scheme(std::string_view url, std::string_view scheme) {
  return url.size() > scheme.size() && url[scheme.size()] == ':' &&
         lower(url.substr(0, scheme.size())) == scheme;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

/// %41 is A. A percent sign that begins no such triple stands for itself.
std::string percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool triple =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    if (!triple) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
    i += 2;
  }
  return out;
}

/// Takes ";base64" off the end of what stands before the comma.
bool take_base64(std::string& head) {
  constexpr std::string_view kMark = ";base64";
  while (head.ends_with(' ')) head.pop_back();
  if (!lower(head).ends_with(kMark)) return false;
  head.resize(head.size() - kMark.size());
  return true;
}

[[noreturn]] void refuse(Fault fault, std::string_view name, const Limits& limits) {
  throw Refused({.fault = fault}, name, limits);
}

/// The path that a file: URL names, absolute or relative to the folder. Nothing when it names another
/// machine.
std::optional<std::filesystem::path> path_of(std::string_view url, const std::filesystem::path& folder) {
  std::string_view rest = url.substr(std::strlen("file:"));
  if (rest.starts_with("//")) rest.remove_prefix(2);
  if (lower(rest.substr(0, 10)) == "localhost/") rest.remove_prefix(9);
  rest = rest.substr(0, rest.find_first_of("?#"));
  const std::string path = percent_decoded(rest);
  if (path.empty() || path.find('\0') != std::string::npos) return std::nullopt;
  return path.front() == '/' ? std::filesystem::path(path) : folder / path;
}

/// Where an open file really is. The question is asked of the file and not of its name, so nobody can swap a
/// link between the check and the use.
std::filesystem::path real_path(const Descriptor& file) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file.get()), error);
}

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const auto [at, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return at == folder.end() && rest != path.end();
}

/// Opens without any effect on what is opened (O_PATH), looks where it lies, and only then opens it to read.
Descriptor open_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const Descriptor found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat info {};
  if (!found.valid() || ::fstat(found.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  if (!is_below(real_path(found), folder)) return {};
  return Descriptor(::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

UrlKind url_kind(std::string_view url) {
  if (starts_with_scheme(url, "data")) return UrlKind::kData;
  if (starts_with_scheme(url, "file")) return UrlKind::kFile;
  if (starts_with_scheme(url, "http") || starts_with_scheme(url, "https")) return UrlKind::kWeb;
  return UrlKind::kOther;
}

DataUrl parse_data_url(std::string_view url, const std::string& name, const Limits& limits) {
  const size_t comma = url.find(',');
  if (url_kind(url) != UrlKind::kData || comma == std::string_view::npos)
    refuse(Fault::kBadUrl, name, limits);
  constexpr size_t kScheme = 5;
  std::string head(url.substr(kScheme, comma - kScheme));
  std::string_view data = url.substr(comma + 1);
  const bool base64 = take_base64(head);
  // No spelling takes more than four characters for a byte, blanks aside; nothing larger is unpacked.
  if (data.size() / 4 > limits.bytes) refuse(Fault::kTooManyBytes, name, limits);
  std::string decoded;
  if (!base64 || data.find('%') != std::string_view::npos) data = decoded = percent_decoded(data);
  DataUrl out{.media_type = lower(head.substr(0, head.find(';'))), .bytes = {}};
  if (base64) {
    auto bytes = decode_base64(data);
    if (!bytes) refuse(Fault::kBadBase64, name, limits);
    out.bytes = std::move(*bytes);
  } else {
    const auto* first = reinterpret_cast<const std::byte*>(data.data());
    out.bytes.assign(first, first + data.size());
  }
  if (out.bytes.size() > limits.bytes) refuse(Fault::kTooManyBytes, name, limits);
  if (out.bytes.empty()) refuse(Fault::kEmpty, name, limits);
  return out;
}

std::vector<std::byte> read_file_url(std::string_view url, const std::string& folder, const Limits& limits) {
  if (url_kind(url) != UrlKind::kFile || folder.empty()) refuse(Fault::kUrlNotAllowed, url, limits);
  std::error_code error;
  const std::filesystem::path root = std::filesystem::canonical(folder, error);
  if (error) fail_file("{}: the folder of media files cannot be opened ({})", folder, error.message());
  const auto path = path_of(url, root);
  const Descriptor file = path ? open_below(*path, root) : Descriptor();
  if (!file.valid()) refuse(Fault::kUrlNotAllowed, url, limits);
  return read_media_file(file, std::string(url), limits);
}

}  // namespace slip::media
