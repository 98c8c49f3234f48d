// Threads that call the handler, in the order requests came. The queue needs no bound of its own: a connection has one
// request at a time, and connections are bounded.
//
// Probes have a thread of their own beside the others: a load balancer takes a server for dead whose /health waits behind
// prompts of a million characters.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/http/exchange.h"

namespace slip::server::http {

class Workers {
 public:
  /// `failed` hears of a handler that threw; its exchange becomes a 500.
  using Failed = std::function<void(const Request& request, const std::string& what)>;

  Workers(int threads, Handler handler, Failed failed);
  ~Workers() { stop(); }

  void post(Request request, std::shared_ptr<Exchange> exchange, bool probe);
  /// Ends after the calls that run now; requests still waiting are let go.
  void stop();

 private:
  struct Task {
    Request request;
    std::shared_ptr<Exchange> exchange;
  };
  struct Queue {
    std::condition_variable arrived;
    std::deque<Task> tasks;
  };
  void run(Queue& queue);
  void call(Task task);

  const Handler handler_;
  const Failed failed_;
  std::mutex mutex_;
  Queue requests_, probes_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace slip::server::http
