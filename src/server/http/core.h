// What all connections of a server share: options, rules, the handler's threads, counts. Made before the first
// connection and gone after the last.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "server/http/access.h"
#include "server/http/options.h"
#include "server/http/workers.h"

namespace slip::server::http {

class Core {
 public:
  Core(Options options, Handler handler, ErrorBody error_body);

  const Options options;
  const Access access;
  const std::shared_ptr<const ErrorBody> error_body;

  /// Set: answers end their connections.
  const std::shared_ptr<std::atomic<bool>> closing = std::make_shared<std::atomic<bool>>(false);
  /// Not 0: new requests get a 503 with this Retry-After.
  std::atomic<int> refusing_seconds{0};

  std::atomic<size_t> connections{0};
  std::atomic<size_t> arriving_bytes{0};  // of bodies that are not whole yet
  std::atomic<uint64_t> requests{0}, refusals{0}, dropped{0};

  bool is_probe(std::string_view path) const;
  std::string next_id();
  void log_refusal(const RefusedRequest& refused);

  /// Requests whose head was accepted and whose answer is not all sent.
  void enter();
  void leave();
  size_t active() const;
  /// False when some are left after `wait`.
  bool wait_idle(std::chrono::milliseconds wait) const;

 private:
  const uint64_t id_start_;
  std::atomic<uint64_t> ids_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable idle_;
  size_t active_ = 0;

 public:
  Workers workers;  // last, so that its threads end before the rest
};

}  // namespace slip::server::http
