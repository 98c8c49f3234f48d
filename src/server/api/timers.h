// Timers: calls at a time to come, for life signs and deadlines. An interface, so that a test passes 330 seconds in no
// time at all.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace slip::server::api {

class Timers {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  virtual ~Timers() = default;
  virtual Time now() const = 0;
  /// Calls back at `when` or soon after, from a thread of its own. The call must be quick and must not throw.
  virtual void at(Time when, std::function<void()> call) = 0;
};

class SystemTimers final : public Timers {
 public:
  SystemTimers() : thread_([this] { loop(); }) {}
  /// What is not due yet never comes.
  ~SystemTimers() override;

  Time now() const override { return Clock::now(); }
  void at(Time when, std::function<void()> call) override;

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Time, std::function<void()>> calls_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace slip::server::api
