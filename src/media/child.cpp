#include "media/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "media/protocol.h"

namespace slip::media {
namespace {

/// Above the numbers that the child's own files get, so that moving them cannot overwrite one with the other.
constexpr int kAside = 10;

class FileActions {
 public:
  FileActions(int input, int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDWR, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, 0, 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    ::posix_spawn_file_actions_adddup2(&actions_, 0, 2);  // else reports of a sanitizer must be seen
#endif
    ::posix_spawn_file_actions_adddup2(&actions_, input, kInputDescriptor);
    ::posix_spawn_file_actions_adddup2(&actions_, output, kOutputDescriptor);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kOutputDescriptor + 1);
  }
  ~FileActions() {
    ::posix_spawn_file_actions_destroy(&actions_);
  }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  const posix_spawn_file_actions_t* get() const {
    return &actions_;
  }

 private:
  posix_spawn_file_actions_t actions_;
};

/// A process group of its own, and signals as the system has them, whatever our caller did with his.
class Attributes {
 public:
  Attributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

/// Keys and tokens in our environment are not the decoder's business. These say where libraries are and how
/// sanitizers report.
std::vector<std::string> child_environment() {
  std::vector<std::string> kept;
  for (const char* name : {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) kept.push_back(std::string(name) + "=" + value);
  }
  return kept;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

pid_t spawn(const WorkerCommand& command, int input, int output) {
  std::vector<std::string> words{command.program};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> environment = child_environment();
  const FileActions actions(input, output);
  const Attributes attributes;
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, command.program.c_str(), actions.get(), attributes.get(),
                                  pointers(words).data(), pointers(environment).data());
  return error == 0 ? pid : -1;
}

Descriptor watch([[maybe_unused]] pid_t pid) {
#ifdef SYS_pidfd_open
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
#else
  return {};
#endif
}

}  // namespace

Child::Child(const WorkerCommand& command, const Descriptor& input, const Descriptor& output) {
  const Descriptor in(::fcntl(input.get(), F_DUPFD_CLOEXEC, kAside));
  const Descriptor out(::fcntl(output.get(), F_DUPFD_CLOEXEC, kAside));
  if (!in.valid() || !out.valid()) return;
  pid_ = spawn(command, in.get(), out.get());
  if (started()) watch_ = watch(pid_);
}

Child::~Child() {
  if (!started()) return;
  kill_now();
  reap();
}

void Child::kill_now() {
#ifdef SYS_pidfd_send_signal
  if (watch_.valid()) {
    ::syscall(SYS_pidfd_send_signal, watch_.get(), SIGKILL, nullptr, 0);
    return;
  }
#endif
  ::kill(pid_, SIGKILL);
}

/// A caller that ignores SIGCHLD or waits for all its children may have taken ours; then only what the child
/// wrote says how it went.
Child::Outcome Child::reap() {
  int status = 0;
  pid_t got = 0;
  do {
    got = ::waitpid(pid_, &status, 0);
  } while (got < 0 && errno == EINTR);
  const bool ours = got == pid_;
  pid_ = -1;
  if (!ours) return {End::kUnknown, 0};
  if (WIFSIGNALED(status)) return {End::kSignal, WTERMSIG(status)};
  return {End::kExited, WEXITSTATUS(status)};
}

/// True when the child has ended; false after the time, or earlier when `cancel` became readable.
bool Child::ended_within(int milliseconds, int cancel) {
  if (watch_.valid()) {
    pollfd files[2] = {{watch_.get(), POLLIN, 0}, {cancel, POLLIN, 0}};
    return ::poll(files, 2, milliseconds) > 0 && files[0].revents != 0;
  }
  siginfo_t info{};
  const int result = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (result < 0 || info.si_pid == pid_) return true;
  constexpr int kSlice = 5;
  pollfd file{cancel, POLLIN, 0};
  ::poll(&file, 1, std::min(milliseconds, kSlice));
  return false;
}

Child::Outcome Child::wait(std::chrono::steady_clock::time_point deadline, std::stop_token stop) {
  using std::chrono::milliseconds;
  const Descriptor cancel(::eventfd(0, EFD_CLOEXEC));
  const std::stop_callback on_stop(stop, [&] {
    const uint64_t one = 1;
    if (::write(cancel.get(), &one, sizeof one) < 0) return;  // the next look at `stop` is at the deadline
  });
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (ended_within(static_cast<int>(std::clamp<int64_t>(left, 0, 1000)), cancel.get())) return reap();
    if (!stop.stop_requested() && left > 0) continue;
    kill_now();
    reap();
    return {stop.stop_requested() ? End::kCancelled : End::kTimedOut, 0};
  }
}

}  // namespace slip::media
