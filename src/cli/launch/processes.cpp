#include "cli/launch/processes.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/error.h"

extern char** environ;

namespace slip::cli {
namespace {

constexpr int kCannotRun = 127;

/// Strings as exec wants them. They must outlive the list.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

/// The environment of this process with some variables set or taken away.
std::vector<std::string> changed_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    bool changed = false;
    for (const auto& [other, value] : changes) changed = changed || other == name;
    if (!changed) all.emplace_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) all.push_back(name + "=" + value);
  }
  return all;
}

pid_t fork_or_fail() {
  const pid_t child = ::fork();
  if (child < 0) fail(ErrorKind::kRuntime, "no process could be started: {}", std::strerror(errno));
  return child;
}

}  // namespace

OwnServer::OwnServer(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"slipstream", "serve"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> list = pointers_to(words);
  const pid_t parent = ::getpid();
  process_ = fork_or_fail();
  if (process_ > 0) return;
  // Only what is safe between fork and exec.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kCannotRun);
  ::execv("/proc/self/exe", list.data());
  ::_exit(kCannotRun);
}

OwnServer::~OwnServer() {
  if (!runs()) return;
  ::kill(process_, SIGTERM);
  ::waitpid(process_, nullptr, 0);
}

bool OwnServer::runs() {
  if (process_ > 0 && ::waitpid(process_, nullptr, WNOHANG) != 0) process_ = -1;
  return process_ > 0;
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    const std::string file = fmt::format("{}/{}", rest.substr(0, colon), name);
    if (::access(file.c_str(), X_OK) == 0) return file;
    rest = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
  }
  return {};
}

int run_program(const std::string& path, const std::vector<std::string>& arguments,
                const std::vector<std::pair<std::string, std::string>>& environment) {
  std::vector<std::string> words{path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<std::string> variables = changed_environment(environment);
  const std::vector<char*> list = pointers_to(words), values = pointers_to(variables);
  const pid_t child = fork_or_fail();
  if (child == 0) {
    ::execve(path.c_str(), list.data(), values.data());
    ::_exit(kCannotRun);
  }
  const auto interrupt = std::signal(SIGINT, SIG_IGN), quit = std::signal(SIGQUIT, SIG_IGN);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  std::signal(SIGINT, interrupt);
  std::signal(SIGQUIT, quit);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace slip::cli
