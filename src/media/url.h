// URLs of media in requests: which kind one is, and the bytes of those that need no network. Fetching web
// addresses is not done here; web_address.h says which ones may be reached.
//
// data: URLs carry their bytes. file: URLs are read only below one folder that the operator named, whatever
// links and dots the path is made of. The MIME type of a data: URL is reported and never believed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "media/limits.h"

namespace slip::media {

enum class UrlKind { kData, kFile, kWeb, kOther };

/// By its scheme, in any case of letters. A text without a scheme is kOther.
UrlKind url_kind(std::string_view url);

struct DataUrl {
  std::string media_type;  // as written, in lower case; may be empty
  std::vector<std::byte> bytes;
};

/// data:[type][;parameter]*[;base64],data. `name` stands for the item in errors, since the URL itself may be
/// megabytes long. Throws Refused.
DataUrl parse_data_url(std::string_view url, const std::string& name, const Limits& limits = {});

/// The bytes of a file: URL below `folder`: file:///absolute, file://localhost/absolute, or file://relative
/// to the folder. An empty folder allows none. Throws Refused, with one sentence for what is missing and what
/// is elsewhere, so that nobody can look around outside.
std::vector<std::byte> read_file_url(std::string_view url, const std::string& folder,
                                     const Limits& limits = {});

}  // namespace slip::media
