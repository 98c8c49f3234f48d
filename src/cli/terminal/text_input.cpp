#include "cli/terminal/text_input.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/terminal/output.h"

namespace slip::cli {
namespace {

std::string read_stdin() {
  std::string text;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_file("cannot read the standard input: {}", std::strerror(errno));
    if (count == 0) return text;
    text.append(chunk, static_cast<size_t>(count));
    if (text.size() > kMaxTextBytes) {
      fail_file("the standard input is longer than {}; give a shorter text", bytes_text(kMaxTextBytes));
    }
  }
}

std::string without_last_newline(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace

std::string read_text(const TextSource& source, const std::string& how) {
  if (source.given && source.file) fail_usage("text is given twice; use only one of {}", how);
  if (source.given) return *source.given;
  if (source.file && *source.file != "-")
    return without_last_newline(read_text_file(*source.file, kMaxTextBytes));
  if (!source.file && stdin_is_terminal()) fail_usage("there is no text; give {}", how);
  return without_last_newline(read_stdin());
}

}  // namespace slip::cli
