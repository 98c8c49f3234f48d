// slip::Error: the one exception type. It ends the operation it belongs to (a load, a request, a command) and
// carries a sentence that says what is wrong, where, and what to do. Commands print the sentence and exit
// with the kind's code. Expected outcomes are return values.
#pragma once

#include <stdexcept>
#include <string>

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

}  // namespace slip
