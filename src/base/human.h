// Sizes, counts, paths and foreign text as people read them, in messages and reports. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slip {

/// Sizes for people, binary units as memory is counted: "812 B", "3.4 GiB".
std::string bytes_text(size_t bytes);
/// Counts for people: "812", "4.61 B".
std::string count_text(int64_t count);

/// A path for people: relative when it lies in the working folder, else as it is.
std::string path_text(const std::string& path);

/// Text that is safe in one line of a terminal: control characters and broken UTF-8 become \n, \x1b and the
/// like.
std::string escaped(std::string_view text);

}  // namespace slip
