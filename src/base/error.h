// Makers of slip::Error (slipstream/error.h): a format and its arguments become the sentence.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "slipstream/error.h"

namespace slip {

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail_file(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kBadFile, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kUsage, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace slip
