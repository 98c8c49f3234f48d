// What may be set about the HTTP half of the server. Every limit has a default that a public server could keep; tests
// make the times short and the sizes small.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "server/http/exchange.h"

namespace slip::server::http {

struct Limits {
  size_t body_bytes = size_t{64} << 20;     // past it 413
  size_t head_bytes = size_t{64} << 10;     // request line and headers; past it 431, in the request line 414
  size_t headers = 100;                     // past it 431
  size_t connections = 4096;                // past it 503
  size_t arriving_bytes = size_t{1} << 30;  // of all bodies that are not whole yet; past it 503
  size_t unsent_bytes = size_t{1} << 20;    // of one connection; a stream past it is dropped
};

struct Times {
  std::chrono::milliseconds head{
      20'000};  // from the first byte (or the connection) to the end of the headers; 408
  std::chrono::milliseconds body{120'000};  // from there to the end of the body; 408
  std::chrono::milliseconds idle{120'000};  // between two requests; longer than proxies keep theirs
  std::chrono::milliseconds write{60'000};  // a client that takes no byte for so long is dropped
  std::chrono::milliseconds linger{
      5'000};  // after a refusal: what is still being sent is read and thrown away
};

/// A request that never reached the handler, for the log.
struct RefusedRequest {
  std::string id, method, path, peer;
  Refusal refusal;
};

struct Options {
  std::string host = "127.0.0.1";  // an address or a name; empty: no TCP
  int port = 8080;                 // 0: any free one
  std::string unix_socket;         // a path; empty: none
  int unix_mode = 0600;            // of the socket's file
  std::string base_path;           // "/gemma": only paths below it are served, and it is taken off

  std::vector<std::string> keys;                                  // empty: everybody may ask
  std::vector<std::string> free_paths{"/", "/health", "/ready"};  // GET and HEAD of these need no key
  /// What load balancers ask: they reach the handler to the end, and wait behind no other request.
  std::vector<std::string> probes{"/health", "/ready", "/metrics"};
  std::vector<std::string> allowed_hosts;  // beside localhost, 127.0.0.1 and ::1; "*": all
  std::vector<std::string> cors_origins;   // "https://app.example"; "*": all

  Limits limits;
  Times times;
  int io_threads = 1;
  int workers = 4;                                        // threads that call the handler
  std::function<void(const RefusedRequest&)> on_refused;  // called on an I/O thread: must be quick
};

}  // namespace slip::server::http
