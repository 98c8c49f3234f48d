#include "server/http/notify.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace slip::server::http {

namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A status is one line: a second one would be another state.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace

Notifier::Notifier() : socket_(environment("NOTIFY_SOCKET")) {
  const auto interval = number(environment("WATCHDOG_USEC"));
  const std::string_view pid = environment("WATCHDOG_PID");
  const bool ours = pid.empty() || number(pid) == static_cast<uint64_t>(::getpid());
  if (!socket_.empty() && interval && *interval > 0 && ours) watchdog_ = std::chrono::microseconds(*interval);
}

bool Notifier::ready(std::string_view text) const {
  return send("READY=1\nSTATUS=" + one_line(text));
}
bool Notifier::stopping(std::string_view text) const {
  return send("STOPPING=1\nSTATUS=" + one_line(text));
}
bool Notifier::status(std::string_view text) const {
  return send("STATUS=" + one_line(text));
}
bool Notifier::alive() const {
  return send("WATCHDOG=1");
}

bool Notifier::send(const std::string& state) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return false;
  if (socket_.front() != '/' && socket_.front() != '@') return false;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_.front() == '@') address.sun_path[0] = '\0';  // a name that is no file
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const int file = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (file < 0) return false;
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  const auto sent = ::sendto(file, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT, where, size);
  ::close(file);
  return sent == static_cast<ssize_t>(state.size());
}

Watchdog::Watchdog(const Notifier& notifier, Options options)
    : notifier_(notifier), options_(std::move(options)), alive_at_(std::chrono::steady_clock::now()) {
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Watchdog::run() {
  std::chrono::microseconds interval = options_.look;
  if (notifier_.watchdog()) interval = std::min(interval, *notifier_.watchdog() / 2);
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, interval, [this] { return ending_; })) {
    lock.unlock();
    if (look()) notifier_.alive();
    lock.lock();
  }
}

bool Watchdog::look() {
  const auto now = std::chrono::steady_clock::now();
  const uint64_t steps = options_.steps();
  if (steps != std::exchange(steps_, steps) || !options_.busy()) {
    alive_at_ = now;
    hung_ = false;
    return true;
  }
  if (now - alive_at_ < options_.limit) return true;
  if (!std::exchange(hung_, true) && options_.on_hang)
    options_.on_hang(fmt::format("no step finished within {} s, although there is work: the engine hangs",
                                 std::chrono::duration_cast<std::chrono::seconds>(options_.limit).count()));
  return false;
}

}  // namespace slip::server::http
