#include "session/engine_thread.h"

#include <exception>

namespace slip::session {

/// Work that somebody waits for.
struct EngineThread::Job {
  const std::function<void()>& work;
  bool done = false;
  std::exception_ptr failure = nullptr;
};

EngineThread::EngineThread(engine::Engine& engine) : engine_(engine), thread_([this] { loop(); }) {}

EngineThread::~EngineThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

uint64_t EngineThread::submit(engine::Request request) {
  const uint64_t id = engine_.submit(std::move(request));
  wake();
  return id;
}

void EngineThread::cancel(uint64_t id) {
  engine_.cancel(id);
  wake();
}

void EngineThread::wake() {
  {
    const std::lock_guard lock(mutex_);
    work_ = true;
  }
  changed_.notify_all();
}

void EngineThread::run(const std::function<void()>& work) {
  Job job{work};
  std::unique_lock lock(mutex_);
  jobs_.push_back(&job);
  work_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return job.done; });
  if (job.failure) std::rethrow_exception(job.failure);
}

void EngineThread::loop() {
  bool more = false;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return more || work_ || stop_; });
      work_ = false;
      if (stop_) break;
    }
    do_jobs();
    more = step();
  }
  engine_.end_all(engine::FinishReason::kCancelled);
  do_jobs();
}

// What a step throws beyond the requests it concerns, such as a lack of memory, ends all of them.
bool EngineThread::step() {
  try {
    return engine_.step();
  } catch (const std::exception& error) {
    engine_.end_all(engine::FinishReason::kError, error.what());
    return false;
  }
}

void EngineThread::do_jobs() {
  std::vector<Job*> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
  }
  for (Job* job : jobs) {
    try {
      job->work();
    } catch (...) {
      job->failure = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    job->done = true;
    changed_.notify_all();
  }
}

}  // namespace slip::session
