#include "base/human.h"

#include <fmt/format.h>

#include <filesystem>

namespace slip {
namespace {

/// Length of the valid UTF-8 character at the start of `text`, 0 when there is none.
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xc2 && first < 0xe0 ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string bytes_text(size_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return value < 9.995   ? fmt::format("{:.2f} {}", value, kUnits[unit])
         : value < 99.95 ? fmt::format("{:.1f} {}", value, kUnits[unit])
                         : fmt::format("{:.0f} {}", value, kUnits[unit]);
}

std::string count_text(int64_t count) {
  const double value = static_cast<double>(count);
  if (value >= 999.5e6) return fmt::format("{:.2f} B", value / 1e9);
  if (value >= 999.5e3) return fmt::format("{:.1f} M", value / 1e6);
  if (value >= 9999.5) return fmt::format("{:.1f} k", value / 1e3);
  return fmt::format("{}", count);
}

std::string path_text(const std::string& path) {
  std::error_code error;
  const std::filesystem::path relative = std::filesystem::proximate(path, error);
  return error || relative.empty() || *relative.begin() == ".." ? path : relative.string();
}

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const size_t length = character_length(text);
    if (first == '\n') {
      out += "\\n";
    } else if (first == '\t') {
      out += "\\t";
    } else if (first == '\\') {
      out += "\\\\";
    } else if (length == 0 || first < 0x20 || first == 0x7f) {
      out += fmt::format("\\x{:02x}", first);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace slip
