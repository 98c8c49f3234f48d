// Server: listens, reads requests, calls the handler, sends answers. HTTP/1.1 and 1.0 over TCP and a Unix socket; TLS is
// a reverse proxy's job.
//
// The constructor binds, so that a taken port is known before a model is loaded; start() accepts. Ending is done in steps
// (drain.h puts them in order): answers end their connections, new requests are refused, what is left is aborted.
// All calls may come from any thread, but one at a time for start() and stop().
//
// Cost: one I/O thread, `workers` threads for the handler, some 3 kB a connection.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "server/http/exchange.h"
#include "server/http/options.h"

namespace slip::server::http {

struct Counts {
  size_t connections = 0;
  size_t active = 0;      // requests that are being read or answered
  uint64_t requests = 0;  // that reached the handler
  uint64_t refusals = 0;  // that did not
  uint64_t dropped = 0;   // connections closed on a client that did not read, or at the end
};

class Server {
 public:
  /// Throws slip::Error when it cannot listen, or an option makes no sense.
  Server(Options options, Handler handler, ErrorBody error_body);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void start();
  /// Aborts what is left and ends the threads. A handler that is being called is waited for.
  void stop();

  /// The port in use, also when 0 was asked for; 0 without TCP.
  int port() const;
  /// "http://127.0.0.1:8080", "unix:/run/slipstream.sock"
  std::vector<std::string> urls() const;
  /// Whether others than this machine can reach it (a warning is due when there are no keys).
  bool bound_wide() const;
  Counts counts() const;

  /// From now on each answer is the last one of its connection.
  void close_behind_answers();
  /// From now on new requests get a 503 with this Retry-After; but not those of Options::probes.
  void refuse_requests(int retry_after_seconds);
  /// Whether all requests are answered; waits for that so long.
  bool wait_idle(std::chrono::milliseconds wait) const;
  /// Closes the connections that have a request under way. Their exchanges hear of it through on_close().
  void abort_requests();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slip::server::http
