#include "server/http/workers.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace slip::server::http {

Workers::Workers(int threads, Handler handler, Failed failed)
    : handler_(std::move(handler)), failed_(std::move(failed)) {
  for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { run(requests_); });
  threads_.emplace_back([this] { run(probes_); });
}

void Workers::post(Request request, std::shared_ptr<Exchange> exchange, bool probe) {
  Queue& queue = probe ? probes_ : requests_;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue.tasks.push_back({std::move(request), std::move(exchange)});
  }
  queue.arrived.notify_one();
}

void Workers::stop() {
  std::deque<Task> left[2];
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    left[0].swap(requests_.tasks);
    left[1].swap(probes_.tasks);
  }
  requests_.arrived.notify_all();
  probes_.arrived.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

void Workers::run(Queue& queue) {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      queue.arrived.wait(lock, [&] { return stopping_ || !queue.tasks.empty(); });
      if (queue.tasks.empty()) return;
      task = std::move(queue.tasks.front());
      queue.tasks.pop_front();
    }
    call(std::move(task));
  }
}

void Workers::call(Task task) {
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

}  // namespace slip::server::http
