// What the hub says about a repository, as text that somebody else wrote: its commit, and its files with
// sizes and hashes. Pure functions that trust nothing. A path that could leave its folder, a hash that is
// none, a name with control characters: the whole listing is refused, since a server that sends one such
// entry may have meant the others too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_client.h"

namespace slip::hub {

struct RepositoryInfo {
  std::string id;       // as the hub writes it: "google/gemma-4-E2B-it"
  std::string commit;   // 40 hexadecimal digits
  std::string licence;  // "apache-2.0"; "" when the hub does not say
  bool gated = false;
};

struct RemoteFile {
  std::string path;
  uint64_t size = 0;
  std::string etag;    // the name of its blob
  bool large = false;  // etag is a SHA-256 of the bytes; else git's SHA-1 of a blob
};

/// Throws Error(kRuntime) that names `where`.
RepositoryInfo parse_info(std::string_view text, const std::string& where);

/// Appends the files of one page of a listing.
void parse_tree_page(std::string_view text, const std::string& where, std::vector<RemoteFile>& files);

/// What one page cannot show: a path that is there twice, or is both a file and a folder.
void check_tree(const std::vector<RemoteFile>& files, const std::string& where);

/// The URL of the next page by a Link header, as it stands there.
std::optional<std::string> next_page(const net::Reply& reply);

/// Whether a path of a repository may be made below a folder.
bool is_safe_path(std::string_view path);

/// How long the hub wants us to wait after 429 or 503; nothing when it does not say.
std::optional<std::chrono::seconds> wanted_wait(const net::Reply& reply);

/// "bytes 0-99/200" as {0, 100, 200}.
struct ContentRange {
  uint64_t begin = 0, end = 0, total = 0;
};
std::optional<ContentRange> parse_content_range(std::string_view text);
/// The total of "bytes */200".
std::optional<uint64_t> parse_unsatisfied_range(std::string_view text);
std::optional<uint64_t> parse_number(std::string_view text);

/// An ETag without W/ and quotes.
std::string bare_etag(std::string_view etag);

/// A text from a server, fit for a message: one line, no control characters, at most 300 bytes.
std::string fit_for_message(std::string_view text);

}  // namespace slip::hub
