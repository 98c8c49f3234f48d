// The end of a server: signals, and the order in which requests are let go.
//
// A load balancer must see /health fail before requests do, or else a rolling restart loses some. So: say it, keep
// answering for a grace time, refuse, wait for streams, end the rest. drain() does this and blocks until it is done.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "server/http/server.h"

namespace slip::server::http {

/// Counts SIGTERM and SIGINT from construction to destruction; then the former handling is back. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int count() const;
  /// Waits until `count()` is at least `signals`, at most so long; returns whether it is.
  bool wait(int signals, std::chrono::milliseconds at_most) const;
  /// As if a signal had come: for other reasons to end, and for tests.
  void raise();
};

struct DrainPlan {
  std::chrono::milliseconds grace{10'000};    // requests are still accepted
  std::chrono::milliseconds timeout{60'000};  // then what runs may finish
  std::chrono::milliseconds farewell{2'000};  // then what `end_rest` sends may reach the clients
  int retry_after_seconds = 5;
  std::function<void()> begin{};     // /health and /ready fail from here on
  std::function<void()> end_rest{};  // ends what still runs, with an error event
  std::function<bool()> at_once{};   // asked all along: true skips what is left of the waiting
};

enum class DrainEnd { kIdle, kEndedRest, kAborted };

/// Ends the server. Returns how: all requests answered, some ended by `end_rest`, or some cut off.
DrainEnd drain(Server& server, const DrainPlan& plan);

}  // namespace slip::server::http
