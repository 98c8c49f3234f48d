// One HTTP client over libcurl's multi interface: any number of transfers at once on the thread that calls
// poll(). Downloads use it for pieces of files, media for the URLs people send. It decides nothing: it
// follows no redirect, retries nothing and sends no header that the request does not name. A reply is handed
// on as it comes, so its cost in memory is one receive buffer per transfer.
//
// Invariants: used from one thread, except wake(). A receiver gets on_end() exactly once for every transfer
// that was started and not stopped, and never after it. Only http and https; certificates are checked.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/cancel.h"
#include "net/clock.h"

namespace slip::net {

enum class Method { kGet, kHead, kPost };

struct Header {
  std::string name, value;
};

struct ByteRange {
  uint64_t begin = 0, end = 0;  // end is behind the last byte
};

/// A transfer ends by itself when nothing came for `silence`, or less than `floor` bytes a second on average
/// over `window`. Time in which the receiver has it paused does not count.
struct Pace {
  Duration silence = std::chrono::seconds(10);
  Duration window = std::chrono::seconds(30);
  uint64_t floor = 1024;
};

struct Request {
  Method method = Method::kGet;
  std::string url;
  std::vector<Header> headers = {};
  std::string body = {};  // of a kPost
  std::optional<ByteRange> range = {};
  Pace pace = {};
  bool fresh_connection = false;  // after a stall: not the connection that stalled
};

struct Reply {
  int status = 0;
  std::vector<Header> headers = {};  // names in lower case, as they came

  /// The value of the first header of this name (lower case), or nullptr.
  const std::string* find(std::string_view name) const;
};

enum class Outcome {
  kDone,
  kStopped,         // by the receiver
  kNoHost,          // the name is unknown
  kNoConnection,    // refused or unreachable
  kForbidden,       // by ClientOptions::allow_address
  kBroken,          // the connection ended too early, or what came is no HTTP
  kSilent,          // Pace::silence
  kTooSlow,         // Pace::floor
  kBadCertificate,  // of the server
  kNoAuthorities,   // this machine has no certificate store
  kProxy,           // a proxy refuses us
};

struct End {
  Outcome outcome = Outcome::kDone;
  std::string message;  // for people: "connection refused"; empty when done
};

enum class Flow { kMore, kPause, kStop };

class Receiver {
 public:
  virtual ~Receiver() = default;
  /// The head of the reply is complete. false ends the transfer with kStopped.
  virtual bool on_head(const Reply& reply) = 0;
  /// The next bytes of the body. After kPause the same bytes come again once resume() was called.
  virtual Flow on_body(std::span<const std::byte> bytes) = 0;
  virtual void on_end(const End& end) = 0;
};

struct ClientOptions {
  std::string agent = "slipstream";
  Duration connect_timeout = std::chrono::seconds(10);
  std::optional<std::string> proxy = {};  // without: what http_proxy and its like say; "" = none
  std::string authorities = {};           // a file of certificates; "" = the system's
  /// Asked for every address before a connection is made to it. Not set = all are allowed.
  std::function<bool(const sockaddr& address, socklen_t length)> allow_address = {};
  Clock* clock = &real_clock();
};

class HttpClient {
 public:
  using Id = uint64_t;

  explicit HttpClient(ClientOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// The receiver must stay until on_end() or stop().
  Id start(const Request& request, Receiver& receiver);
  /// Ends a transfer without on_end(). Not from within its own callbacks.
  void stop(Id id);
  void resume(Id id);
  int active() const;
  Clock& clock() const;

  /// Moves data and calls receivers; returns after `longest`, or as soon as something happened.
  void poll(std::chrono::milliseconds longest);
  /// From any thread: ends a poll() that waits.
  void wake();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A whole small reply. Other transfers of the client go on meanwhile.
struct Fetched {
  Reply reply;
  std::string body;
  End end;
  bool too_long = false;  // the body exceeded the limit and was cut off there
};

Fetched fetch(HttpClient& client, const Request& request, size_t longest_body,
              const Cancel* cancel = nullptr);

}  // namespace slip::net
