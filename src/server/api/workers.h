// Workers: the threads on which deltas become text for clients, so that the engine's thread does none of it. Jobs run in
// the order they come, each on any thread; whoever needs an order of its own keeps a strand (answer.h).
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace slip::server::api {

class Workers {
 public:
  explicit Workers(int threads);
  /// Does what is queued, then ends.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// From any thread; never waits. The job must not throw.
  void post(std::function<void()> job);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace slip::server::api
