// Where a command's text comes from: its option or words, a file (-f), or stdin when something is piped in.
// Text is taken as it is; one newline at the very end of a file or pipe is dropped, since editors and echo
// add it.
#pragma once

#include <optional>
#include <string>

namespace slip::cli {

// A prompt of 64 MiB is beyond any context; more is a mistake, and must not fill the memory.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;

struct TextSource {
  std::optional<std::string> given;  // from the option or the words
  std::optional<std::string> file;   // -f; "-" means stdin
};

/// The text. Throws Error(kUsage) when two sources are given, or none and stdin is a terminal; `how` says in
/// that message what to give: "-p PROMPT, -f FILE or a pipe".
std::string read_text(const TextSource& source, const std::string& how);

}  // namespace slip::cli
