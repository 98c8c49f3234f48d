// What a service manager is told (systemd's notification protocol: datagrams to the socket that NOTIFY_SOCKET names), and
// the watchdog that ends a process whose engine hangs. Without a service manager all of it does nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace slip::server::http {

class Notifier {
 public:
  /// Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from the environment.
  Notifier();
  /// For tests.
  explicit Notifier(std::string socket) : socket_(std::move(socket)) {}

  /// The state lines as systemd defines them: ready with a status text, stopping, a new status text, alive.
  bool ready(std::string_view status) const;
  bool stopping(std::string_view status) const;
  bool status(std::string_view text) const;
  bool alive() const;
  /// Within what time alive() is expected again; nothing when nobody watches.
  std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }

 private:
  bool send(const std::string& state) const;

  std::string socket_;
  std::optional<std::chrono::microseconds> watchdog_;
};

/// Looks at the engine from a thread of its own. Progress (any change of `steps`) or nothing to do is life, and is passed
/// on to the service manager. A step that takes longer than `limit` is reported once, and no life is passed on from then.
class Watchdog {
 public:
  struct Options {
    std::function<uint64_t()> steps;  // steps finished so far
    std::function<bool()> busy;       // whether a step is due
    std::function<void(const std::string& reason)>
        on_hang;  // to end the process: a supervisor starts it again
    std::chrono::milliseconds limit{120'000};
    std::chrono::milliseconds look{1'000};  // how often; at most half of what the service manager expects
  };

  Watchdog(const Notifier& notifier, Options options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void run();
  bool look();

  const Notifier& notifier_;
  const Options options_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false, hung_ = false;
  uint64_t steps_ = 0;
  std::chrono::steady_clock::time_point alive_at_;
  std::thread thread_;
};

}  // namespace slip::server::http
