// What commands print: stdout carries the answer and nothing else, stderr everything about it. Writing checks
// for errors, so that a full disk is a failure and not a silently shorter file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace slip::cli {

/// Writes to stdout at once, unbuffered. Throws Error(kRuntime) when it cannot.
void write_out(std::string_view text);
/// Writes to stderr; failures are ignored, since there is nobody left to tell.
void write_err(std::string_view text);
bool stdout_is_terminal();
bool stderr_is_terminal();
bool stdin_is_terminal();

/// Sizes for people, binary units as memory is counted: "812 B", "3.4 GiB".
std::string bytes_text(size_t bytes);
/// Counts for people: "812", "4.61 B".
std::string count_text(int64_t count);

/// A path for people: relative when it lies in the working folder, else as it is.
std::string path_text(const std::string& path);

/// Text that is safe in one line of a terminal: control characters and broken UTF-8 become \n, \x1b and the
/// like.
std::string escaped(std::string_view text);

}  // namespace slip::cli
