// The two programs that `launch` starts: a server of its own, which ends with it, and the agent, which has the terminal.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace slip::cli {

/// A server in a process group of its own, so that Ctrl-C in the agent does not reach it. It ends with this object, and
/// with this process however that ends.
class OwnServer {
 public:
  /// `arguments`: of the command `serve`.
  explicit OwnServer(const std::vector<std::string>& arguments);
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  /// False once it has ended by itself.
  bool runs();

 private:
  pid_t process_ = -1;
};

/// Where the program lies on PATH; empty when it does not.
std::string find_program(const std::string& name);

/// Runs it to its end and returns its exit code, 128 + N after signal N. Ctrl-C is its own to handle.
int run_program(const std::string& path, const std::vector<std::string>& arguments,
                const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace slip::cli
