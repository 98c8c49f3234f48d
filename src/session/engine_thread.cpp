#include "session/engine_thread.h"

#include <algorithm>
#include <chrono>
#include <exception>

namespace slip::session {
namespace {

using Clock = std::chrono::steady_clock;

// While nobody writes: short enough that who comes then hardly waits.
constexpr double kIdleSlice = 0.05;
// Of the last step in the mean of those before.
constexpr double kNewest = 0.25;

}  // namespace

/// Work that somebody waits for.
struct EngineThread::Job {
  const std::function<void()>& work;
  bool done = false;
  std::exception_ptr failure = nullptr;
};

EngineThread::EngineThread(engine::Engine& engine, Background background)
    : engine_(engine), background_(std::move(background)), thread_([this] { loop(); }) {}

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
    more |= run_background();
  }
  engine_.end_all(engine::FinishReason::kCancelled);
  do_jobs();
}

// What a step throws beyond the requests it concerns, such as a lack of memory, ends all of them.
bool EngineThread::step() {
  const auto begin = Clock::now();
  try {
    const bool more = engine_.step();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    step_s_ = step_s_ == 0 ? seconds : step_s_ + kNewest * (seconds - step_s_);
    // A step that read a prompt is no measure of how long those who write may be kept waiting.
    step_s_ = std::min(step_s_, seconds);
    return more;
  } catch (const std::exception& error) {
    engine_.end_all(engine::FinishReason::kError, error.what());
    return false;
  }
}

bool EngineThread::run_background() {
  if (!background_) return false;
  if (engine_.running() == 0) step_s_ = 0;
  return background_(step_s_ > 0 ? step_s_ : kIdleSlice);
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
