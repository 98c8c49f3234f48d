// A thread that works off tasks in order, and hands what follows from each back to the thread that posted it.
// So the state of a download is touched by one thread alone, while hashing and syncing take their time.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace slip::hub {

class Background {
 public:
  using Task = std::function<void()>;

  /// `on_done` is called on the new thread whenever there is something to collect().
  explicit Background(Task on_done);
  /// Finishes the task at hand and drops the others.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// `work` runs on the thread; `then` in a later collect(), unless `work` threw.
  void post(Task work, Task then = {});
  /// Runs what follows from finished tasks; throws what the first failed one threw.
  void collect();
  /// Waits until all tasks are done, and collects.
  void drain();
  bool idle() const;

 private:
  struct Entry {
    Task work, then;
  };
  void run();

  const Task on_done_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> queue_;
  std::vector<Task> finished_;
  std::exception_ptr fault_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace slip::hub
