#include "hub/background.h"

#include <utility>

namespace slip::hub {

Background::Background(Task on_done) : on_done_(std::move(on_done)), thread_([this] { run(); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void Background::post(Task work, Task then) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(work), std::move(then)});
  }
  changed_.notify_all();
}

void Background::collect() {
  std::vector<Task> finished;
  std::exception_ptr fault;
  {
    const std::lock_guard lock(mutex_);
    finished.swap(finished_);
    fault = std::exchange(fault_, nullptr);
  }
  for (const Task& then : finished) then();
  if (fault) std::rethrow_exception(fault);
}

void Background::drain() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  }
  collect();
}

bool Background::idle() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !busy_ && finished_.empty();
}

void Background::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr fault;
    try {
      entry.work();
    } catch (...) {
      fault = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    if (fault && !fault_) fault_ = fault;
    if (!fault && entry.then) finished_.push_back(std::move(entry.then));
    changed_.notify_all();
    lock.unlock();
    on_done_();
    lock.lock();
  }
}

}  // namespace slip::hub
