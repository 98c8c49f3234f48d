// slip::Error: the one exception type. It ends the operation it belongs to (a load, a request, a command) and
// carries a sentence that says what is wrong, where, and what to do. Commands print the sentence and exit
// with the kind's code; the server will turn it into an OpenAI error object. Expected outcomes are return
// values.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace slip {

enum class ErrorKind {
  kUsage,        // wrong option or argument                  exit 1
  kBadFile,      // a file is missing, damaged or unsupported exit 2
  kOutOfMemory,  // does not fit                              exit 3
  kRuntime,      // anything else that stopped the work       exit 4
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_) + 1; }

 private:
  ErrorKind kind_;
};

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
