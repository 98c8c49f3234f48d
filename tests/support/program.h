// Runs the built slipstream program and keeps what it printed, for tests that look at it from outside.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace slip::test {

namespace fs = std::filesystem;

/// A folder that is gone when the test is over.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "slipstream-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string path(const std::string& name = "") const { return name.empty() ? path_ : path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

struct Result {
  int code = -1;  // 128 + signal when killed by one, as a shell says it
  std::string out, err;
};

/// Starts a program; stdin is the given text. Returns its process id. Output goes to out.txt and err.txt in
/// `folder`.
inline pid_t start_program(const std::string& program, const std::vector<std::string>& args,
                           const std::string& input, const std::string& folder) {
  write_file(folder + "/in.txt", input);
  const pid_t child = ::fork();
  if (child != 0) return child;
  const auto redirect = [&](const char* name, int flags, int descriptor) {
    ::dup2(::open((folder + name).c_str(), flags, 0600), descriptor);
  };
  redirect("/in.txt", O_RDONLY, STDIN_FILENO);
  redirect("/out.txt", O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
  redirect("/err.txt", O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

inline pid_t start(const std::vector<std::string>& args, const std::string& input,
                   const std::string& folder) {
  return start_program(SLIP_PROGRAM, args, input, folder);
}

inline Result finish(pid_t child, const std::string& folder) {
  int status = 0;
  ::waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read_file(folder + "/out.txt"), read_file(folder + "/err.txt")};
}

inline Result run_program(const std::string& program, const std::vector<std::string>& args,
                          const std::string& input) {
  const TemporaryFolder folder;
  return finish(start_program(program, args, input, folder.path()), folder.path());
}

inline Result run(const std::vector<std::string>& args, const std::string& input = "") {
  return run_program(SLIP_PROGRAM, args, input);
}

}  // namespace slip::test
