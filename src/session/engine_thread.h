// EngineThread: the one thread that steps an engine. It sleeps while there is nothing to do, and no lock is held
// while a step works. Any thread may submit, cancel and read; run() does something between two steps, for what
// shares the backend's threads. An encoder is such: it works in slices, each as long as a decode step while
// somebody writes.
//
// The destructor cancels what runs, waits for the step at hand and ends the thread; every request then has had its
// last delta.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace slip::session {

class EngineThread {
 public:
  /// Does a part of some work, at most so many seconds of it. True while there is more.
  using Background = std::function<bool(double seconds)>;

  /// The engine must outlive this.
  explicit EngineThread(engine::Engine& engine, Background background = {});
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  /// As Engine::submit(); throws what that throws.
  uint64_t submit(engine::Request request);
  void cancel(uint64_t id);
  /// Calls `work` on the engine's thread between two steps and waits for it; passes on what it throws. Must not be
  /// called from a sink.
  void run(const std::function<void()>& work);

 private:
  struct Job;
  void loop();
  bool step();
  bool run_background();
  void do_jobs();
  void wake();

  engine::Engine& engine_;
  const Background background_;
  double step_s_ = 0;  // of a step while somebody writes, about
  std::mutex mutex_;
  std::condition_variable changed_;
  bool work_ = false;  // something was submitted, cancelled or is to be run
  bool stop_ = false;
  std::vector<Job*> jobs_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace slip::session
