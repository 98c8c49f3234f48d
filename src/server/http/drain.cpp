#include "server/http/drain.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace slip::server::http {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{50};  // how often a wait asks whether it should go on

// A signal handler reaches nothing but globals.
std::atomic<int> signals_seen{0};
std::atomic<int> signal_pipe{-1};

struct SignalState {
  std::array<int, 2> pipe{-1, -1};
  struct sigaction term {
  }, interrupt{};
};
SignalState signal_state;

void note_signal(int) {
  const int saved = errno;
  ++signals_seen;
  const char byte = 0;
  // A full pipe has woken the reader already.
  [[maybe_unused]] const auto written = ::write(signal_pipe.load(), &byte, 1);
  errno = saved;
}

std::chrono::milliseconds left_until(Clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  return std::max(left, std::chrono::milliseconds{0});
}

}  // namespace

StopSignals::StopSignals() {
  SLIP_CHECK(signal_pipe.load() == -1);
  if (::pipe2(signal_state.pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    fail(ErrorKind::kRuntime, "cannot make a pipe for signals: the process has too many open files");
  signals_seen = 0;
  signal_pipe = signal_state.pipe[1];
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, &signal_state.term);
  ::sigaction(SIGINT, &action, &signal_state.interrupt);
}

StopSignals::~StopSignals() {
  ::sigaction(SIGTERM, &signal_state.term, nullptr);
  ::sigaction(SIGINT, &signal_state.interrupt, nullptr);
  signal_pipe = -1;
  for (int& file : signal_state.pipe) ::close(std::exchange(file, -1));
}

int StopSignals::count() const {
  return signals_seen.load();
}

bool StopSignals::wait(int signals, std::chrono::milliseconds at_most) const {
  const Clock::time_point end = Clock::now() + at_most;
  while (count() < signals) {
    const auto left = left_until(end);
    if (left.count() == 0) return false;
    pollfd entry{signal_state.pipe[0], POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(std::min<long long>(left.count(), 1000)));
    std::array<char, 16> bytes{};
    while (::read(signal_state.pipe[0], bytes.data(), bytes.size()) > 0) continue;
  }
  return true;
}

void StopSignals::raise() {
  note_signal(SIGTERM);
}

DrainEnd drain(Server& server, const DrainPlan& plan) {
  const auto hurried = [&] { return plan.at_once && plan.at_once(); };
  const auto wait_idle = [&](std::chrono::milliseconds at_most) {
    const Clock::time_point end = Clock::now() + at_most;
    while (!server.wait_idle(std::min(kLook, left_until(end))))
      if (hurried() || left_until(end).count() == 0) return server.wait_idle(std::chrono::milliseconds{0});
    return true;
  };
  if (plan.begin) plan.begin();
  server.close_behind_answers();
  const Clock::time_point grace_end = Clock::now() + plan.grace;
  while (!hurried() && left_until(grace_end).count() > 0)
    std::this_thread::sleep_for(std::min(kLook, left_until(grace_end)));
  server.refuse_requests(plan.retry_after_seconds);

  DrainEnd end = DrainEnd::kIdle;
  if (!wait_idle(plan.timeout)) {
    end = DrainEnd::kAborted;
    if (plan.end_rest && !hurried()) {
      plan.end_rest();
      if (wait_idle(plan.farewell)) end = DrainEnd::kEndedRest;
    }
  }
  server.stop();
  return end;
}

}  // namespace slip::server::http
