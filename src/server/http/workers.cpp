#include "server/http/workers.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace slip::server::http {

Workers::Workers(int threads, Handler handler, Failed failed)
    : handler_(std::move(handler)), failed_(std::move(failed)) {
  for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { run(); });
}

void Workers::post(Request request, std::shared_ptr<Exchange> exchange) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back({std::move(request), std::move(exchange)});
  }
  arrived_.notify_one();
}

void Workers::stop() {
  std::deque<Task> left;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    left.swap(tasks_);
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void Workers::run() {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    // The handler gets the request by value, so what the log needs is kept apart.
    Request label;
    label.id = task.request.id, label.method = task.request.method, label.path = task.request.path;
    label.peer = task.request.peer;
    try {
      handler_(std::move(task.request), std::move(task.exchange));
    } catch (const std::exception& error) {
      failed_(label, error.what());
    } catch (...) {
      failed_(label, "an exception of unknown type");
    }
  }
}

}  // namespace slip::server::http
