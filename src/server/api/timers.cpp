#include "server/api/timers.h"

namespace slip::server::api {

SystemTimers::~SystemTimers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SystemTimers::at(Time when, std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.emplace(when, std::move(call));
  }
  changed_.notify_all();
}

void SystemTimers::loop() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (calls_.empty()) {
      changed_.wait(lock);
    } else if (const Time next = calls_.begin()->first; Clock::now() < next) {
      changed_.wait_until(lock, next);
    } else {
      const std::function<void()> call = std::move(calls_.begin()->second);
      calls_.erase(calls_.begin());
      lock.unlock();
      call();
      lock.lock();
    }
  }
}

}  // namespace slip::server::api
