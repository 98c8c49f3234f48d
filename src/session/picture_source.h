// Where the bytes of a picture come from when a request names them by a URL: the URL itself (data:), one folder that the
// operator named (file:), or, where that is allowed, the web.
//
// A web fetch connects to public addresses alone, whatever names, redirects and parsers say: the address is checked where
// the socket is opened. It follows three redirects, takes no more bytes and time than the limits, uses no proxy,
// and sends nothing that could tell who asks.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "media/limits.h"

namespace slip::session {

struct PictureSources {
  std::string folder = {};                // file: URLs below it; empty: none
  bool web = false;                       // http: and https: URLs
  std::vector<std::string> domains = {};  // with `web`: these and those below them alone; empty: all
  media::Limits limits = {};
  std::chrono::milliseconds fetch_limit{15'000};  // of one picture
  /// Instead of media::is_public, for tests.
  std::function<bool(const sockaddr& address, socklen_t size)> allow_address = {};
  bool any_port = false;  // not only 80 and 443; for tests
};

/// `name` stands for the picture in errors. Throws media::Refused.
std::vector<std::byte> read_picture_url(std::string_view url, const std::string& name,
                                        const PictureSources& sources, std::stop_token stop = {});

}  // namespace slip::session
