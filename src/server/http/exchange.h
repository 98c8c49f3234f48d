// What the two halves of the server say to each other: a request whose head was accepted and whose body is whole, and
// the exchange that answers it. http/ makes them from sockets and knows no model; api/ answers them and knows no socket.
//
// Exactly one of respond() and start() is called, once. An exchange that is let go unanswered becomes a 500, one let go
// in mid-stream an aborted connection.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace slip::server::http {

struct Header {
  std::string name, value;
};

/// A request whose head was accepted (limits, key, host) and whose body is whole.
struct Request {
  std::string method, path;  // path decoded, without query; path is as sent below an optional --base-path
  std::string query;         // raw, behind '?'
  std::vector<Header> headers;
  std::string body;
  std::string id;    // "req-..." unique, for logs and the x-request-id header
  std::string key;   // the API key that was accepted; empty without keys
  std::string peer;  // "127.0.0.1:5012" or "unix"
  std::string_view header(std::string_view name) const;  // case-insensitive; empty when absent
};

/// The answer to one request. Every call may come from any thread; none blocks on a socket. Exactly one of respond() or
/// start() is called, once.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void respond(int status, std::vector<Header> headers, std::string body) = 0;
  /// Headers of a stream (chunked); then write() any number of times, then finish().
  virtual void start(int status, std::vector<Header> headers) = 0;
  /// False when the client is gone or has not read for so long that the bound on buffered bytes was reached (the
  /// connection is dropped then).
  virtual bool write(std::string_view data) = 0;
  virtual void finish() = 0;
  virtual bool open() const = 0;
  /// Called once, from any thread, when the client went away before the answer was complete. Called at once if it has
  /// already.
  virtual void on_close(std::function<void()> callback) = 0;
};

/// Called on a worker thread for each request; may return before the answer is complete and keep the exchange.
using Handler = std::function<void(Request request, std::shared_ptr<Exchange> exchange)>;

/// The body of an error answer in the shape of the API that the path belongs to; http uses it for its own refusals (401,
/// 403, 404 of malformed paths, 408, 413, 431, 429, 503 ...).
struct Refusal {
  int status;
  std::string code, message;
  int retry_after_seconds = 0;
};
using ErrorBody = std::function<std::string(std::string_view path, const Refusal& refusal)>;

}  // namespace slip::server::http
