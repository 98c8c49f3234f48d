// Answer: the exchange of one request. Handlers fill it from any thread, the connection's thread empties it into the
// socket; between the two lies a list of byte strings with a bound.
//
// A stream past the bound is aborted rather than awaited: its producer is the engine, which waits for nobody. A single
// piece may be larger than the bound when nothing else is unsent. The producer wakes the other side once for any number
// of pieces. `wake` is called under the lock and dropped by gone(), so an answer may outlive its server.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/http/exchange.h"

namespace slip::server::http {

struct AnswerOptions {
  std::string id, path;
  std::vector<Header> headers;  // of the server, on every answer
  bool head_only = false;       // HEAD
  bool http11 = true;
  bool keep_alive = true;
  size_t unsent_limit = size_t{1} << 20;
  std::shared_ptr<const ErrorBody> error_body;
  std::shared_ptr<const std::atomic<bool>> closing;  // set: answers end their connection (drain)
  std::function<void()> wake;
};

class Answer final : public Exchange, public std::enable_shared_from_this<Answer> {
 public:
  explicit Answer(AnswerOptions options);

  void respond(int status, std::vector<Header> headers, std::string body) override;
  void start(int status, std::vector<Header> headers) override;
  bool write(std::string_view data) override;
  void finish() override;
  bool open() const override;
  void on_close(std::function<void()> callback) override;

  /// What the handler gets: once its last copy is gone, an unanswered request becomes a 500 and an unfinished stream
  /// is aborted.
  std::shared_ptr<Exchange> handle();

  // For the connection's thread.
  struct Taken {
    bool begun = false;     // respond() or start() was called
    bool complete = false;  // nothing follows what was taken
    bool aborted = false;   // close the connection at once
    bool keep_alive = false;
  };
  /// Appends what is to be sent.
  Taken take(std::vector<std::string>& pieces);
  /// To be called when a wake arrives; false when the connection is to be closed at once.
  bool woken();
  /// So many bytes of what was taken are in the kernel's hands.
  void sent(size_t bytes);
  /// The connection cannot carry another request.
  void close_behind();
  /// The peer sends no more. A whole answer may still reach it, a stream is over.
  void peer_left();
  /// The connection is closed.
  void gone();

 private:
  enum class State { kWaiting, kStreaming, kComplete, kAborted };
  void abandoned();
  void begin(int status, const std::vector<Header>& headers, const std::string* body);
  void wake_locked();
  void leave(bool closed);

  const AnswerOptions options_;
  mutable std::mutex mutex_;
  State state_ = State::kWaiting;
  std::vector<std::string> pieces_;
  size_t unsent_ = 0;  // here and with the connection
  std::function<void()> wake_, callback_;
  bool woken_ = false;
  bool left_ = false;  // the peer
  bool lost_ = false;  // before the answer was complete
  bool keep_alive_;
  bool chunked_ = false;
  bool no_body_ = false;
};

}  // namespace slip::server::http
