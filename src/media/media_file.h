// read_media_file(): the bytes of a file that a person named on a command line. Regular files and pipes are
// read, so that `--image <(command)` works; folders and devices are refused. The size limit holds while
// reading, not only for what the file system says.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "media/descriptor.h"
#include "media/limits.h"

namespace slip::media {

std::vector<std::byte> read_media_file(const std::string& path, const Limits& limits,
                                       std::stop_token stop = {});

/// The same of a file that is open already; `name` is what errors call it.
std::vector<std::byte> read_media_file(const Descriptor& file, const std::string& name, const Limits& limits,
                                       std::stop_token stop = {});

}  // namespace slip::media
