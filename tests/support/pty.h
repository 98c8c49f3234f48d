// The program on a terminal of its own: keys go in, what it draws comes out.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

namespace slip::test {

class PtyProgram {
 public:
  explicit PtyProgram(const std::vector<std::string>& args, int columns = 100) {
    winsize size = {};
    size.ws_row = 30;
    size.ws_col = static_cast<unsigned short>(columns);
    child_ = ::forkpty(&master_, nullptr, nullptr, &size);
    if (child_ == 0) {
      ::setenv("TERM", "xterm", 1);
      std::vector<char*> argv = {const_cast<char*>(SLIP_PROGRAM)};
      for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
      argv.push_back(nullptr);
      ::execv(SLIP_PROGRAM, argv.data());
      ::_exit(127);
    }
  }
  ~PtyProgram() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    ::close(master_);
  }
  PtyProgram(const PtyProgram&) = delete;
  PtyProgram& operator=(const PtyProgram&) = delete;

  void send(const std::string& keys) {
    ASSERT_EQ(::write(master_, keys.data(), keys.size()), std::ssize(keys));
  }

  /// Reads until `words` have come since the last wait; what came up to them is then done with. False after
  /// half a minute or when the program has ended without them.
  bool wait_for(const std::string& words) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (true) {
      if (const size_t at = output_.find(words, seen_); at != std::string::npos) {
        seen_ = at + words.size();
        return true;
      }
      if (std::chrono::steady_clock::now() > deadline || !read_some()) return false;
    }
  }
  /// All it has drawn.
  const std::string& output() const { return output_; }

  /// The exit code; 128 + signal when killed by one. A program that neither writes nor ends is killed.
  int finish() {
    while (read_some()) {
    }
    if (!gone_) ::kill(child_, SIGKILL);
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void kill(int signal) const { ::kill(child_, signal); }

  /// Whether the terminal echoes and reads lines, as a shell expects it.
  bool is_as_before() const {
    termios settings = {};
    return tcgetattr(master_, &settings) == 0 && (settings.c_lflag & ICANON) && (settings.c_lflag & ECHO);
  }

 private:
  bool read_some() {
    pollfd waiting = {master_, POLLIN, 0};
    if (::poll(&waiting, 1, 30000) <= 0) return false;
    char bytes[4096];
    const ssize_t count = ::read(master_, bytes, sizeof bytes);
    gone_ = count <= 0;  // EIO: nobody has the other side open
    if (gone_) return false;
    output_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  pid_t child_ = 0;
  int master_ = -1;
  bool gone_ = false;
  std::string output_;
  size_t seen_ = 0;
};

}  // namespace slip::test
